-- A dispatcher that found nothing says that it sleeps until `expiry` from now: whoever publishes notifies it. Null: it has
-- work again.
create or replace function queues.rest_dispatcher(dispatcher_id text, expiry interval) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    if dispatcher_id is null or dispatcher_id not like 'dispatcher/_%' or length(dispatcher_id) > 300 then
        raise exception using errcode = 'RQ003', message = 'a dispatcher''s id begins with dispatcher/';
    end if;
    if expiry is null then
        delete from queues.sleeper s where s.worker_id = dispatcher_id;
        return;
    end if;
    insert into queues.sleeper as s (worker_id, queues, until)
    values (dispatcher_id, '{"outbox "}', clock_timestamp() + least(expiry, interval '1 minute'))
    on conflict on constraint sleeper_pkey do update set until = excluded.until;
end $$;
