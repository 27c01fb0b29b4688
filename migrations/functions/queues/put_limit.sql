-- Limits a queue, a type, or a key ('customer:7', 'customer:*' for every key that begins so, '*' for all others): so many at
-- once over all workers, and so many per second with a bucket of `burst` (default: a second's worth, at least one). Both
-- null: the limit goes. Known to every worker's next claim.
create or replace function queues.put_limit(
    scope text, name text, concurrency integer default null, rate double precision default null, burst double precision default null)
    returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    fault text := case
        when scope is null or scope not in ('queue', 'type', 'key') then 'the scope of a limit is ''queue'', ''type'' or ''key'''
        when name is null or length(name) not between 1 and 500 then 'a limit needs the name of its queue, type or key'
        when concurrency not between 1 and 100000 then 'concurrency lies within 1 and 100000; to stop a queue or type, pause it'
        when rate <= 0 or rate > 1000000 or rate = 'NaN' then 'rate lies above 0 and up to 1000000 tasks a second'
        when burst < 1 or burst > 10000000 or burst = 'NaN' then 'burst lies within 1 and 10000000 tasks'
        when burst is not null and rate is null then 'a burst needs a rate' end;
begin
    if fault is not null then
        raise exception using errcode = 'RQ003', message = fault;
    end if;
    if concurrency is null and rate is null then
        delete from queues.limits l where l.scope = put_limit.scope and l.name = put_limit.name;
    else
        insert into queues.limits as l (scope, name, concurrency, rate, burst)
        values (scope, name, concurrency, rate, case when rate is not null then coalesce(burst, greatest(1, rate)) end)
        on conflict on constraint limits_pkey do update
        set concurrency = excluded.concurrency, rate = excluded.rate, burst = excluded.burst, tokens = null, filled_at = null,
            updated_at = now();
    end if;
    perform internal.flow_changed();
    return case when concurrency is null and rate is null then 'removed' else 'limited' end;
end $$;
