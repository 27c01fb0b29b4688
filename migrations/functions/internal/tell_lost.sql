-- A worker is silent for so long that it counts as gone: an event, if one of its queues wants that.
create or replace function internal.tell_lost(worker queues.workers) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select from queues.queue_settings s
               where s.engine_events and (worker.queues is null or s.queue_name = any (worker.queues))) then
        perform internal.add_outbox_event(
            'reproq.worker.lost', substring(worker.id from '^(.*)/[^/]*$'), jsonb_build_object(
            'worker', substring(worker.id from '^(.*)/[^/]*$'), 'hostname', worker.hostname, 'pid', worker.pid,
            'queues', worker.queues, 'last_heartbeat', worker.last_heartbeat), false);
    end if;
end $$;
