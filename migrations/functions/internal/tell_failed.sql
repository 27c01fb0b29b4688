-- A task has failed for good: an event, if its queue wants that. A supervised one is its process's affair. In no order, so
-- without a lock: the batch of a finish may hold any number of tasks.
create or replace function internal.tell_failed(task queues.task_runs, kind text) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    if not task.supervised
       and exists (select from queues.queue_settings s where s.queue_name = task.queue_name and s.engine_events) then
        perform internal.add_outbox_event('reproq.task.failed', task.id::text, jsonb_build_object(
            'task_id', task.id, 'task_type', task.task_type, 'queue_name', task.queue_name, 'failure_kind', kind,
            'attempts', task.attempt_count, 'created_at', task.created_at), false);
    end if;
end $$;
