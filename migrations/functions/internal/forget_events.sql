-- A batch of old audit events and operational errors.
create or replace function internal.forget_events() returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    keep interval := (select s.keep_events from queues.settings s);
    gone bigint;
    more bigint;
begin
    delete from queues.task_events e
    where e.id in (select x.id from queues.task_events x order by x.id limit 5000) and e.created_at < now() - keep;
    get diagnostics gone = row_count;
    delete from queues.error e
    where e.id in (select x.id from queues.error x order by x.id limit 5000) and e.created_at < now() - keep;
    get diagnostics more = row_count;
    return gone + more;
end $$;
