-- What has failed for good in a queue is told to a task of this type, in the same transaction; null: no more. A type's own
-- route, which its worker reports, wins.
create or replace function queues.route_dead_letters(queue_name text, dead_letter_type text default null) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    perform internal.check_enqueue(coalesce(dead_letter_type, 'x'), queue_name, now(), 0, null, null, null, null, null, null, null);
    if dead_letter_type in ('db_function', 'email', 'sms') then
        raise exception using errcode = 'RQ003', message = format('%s can''t take dead letters', dead_letter_type),
            hint = 'Name a type of your own: its task gets a payload that says what failed.';
    end if;
    insert into queues.queue_settings as s (queue_name, dead_letter_type) values (queue_name, dead_letter_type)
    on conflict on constraint queue_settings_pkey do update set dead_letter_type = excluded.dead_letter_type, updated_at = now();
    update internal.flow f set routes = true where dead_letter_type is not null and not f.routes;
    return case when dead_letter_type is null then 'removed' else 'routed' end;
end $$;
