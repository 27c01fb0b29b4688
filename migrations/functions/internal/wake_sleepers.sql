-- NOTIFY takes one lock of the whole server at commit: only who sleeps on this queue and type is woken. A hint, no more.
create or replace function internal.wake_sleepers(queue_name text, task_type text) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    if exists (
        select from queues.sleeper s
        where s.until > clock_timestamp() and (s.queues is null or queue_name = any (s.queues))
          and (s.prefixes is null or exists (select from unnest(s.prefixes) p where starts_with(task_type, p)))) then
        perform pg_notify('reproq', queue_name);
    end if;
end $$;
