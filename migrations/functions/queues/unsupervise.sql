-- The process has ended: its supervisor waits no more, and nobody resumes it.
create or replace function queues.unsupervise(supervisor text, ids jsonb, queue_name text default 'default') returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    hash text := queues.spec_hash('db_function', queue_name, internal.supervisor_payload(supervisor, ids));
begin
    delete from internal.open_process p where p.spec_hash = hash;
    update queues.task_runs t
    set status = 'CANCELLED', completed_at = clock_timestamp(), failure_kind = 'superseded',
        last_error = 'its process has ended', updated_at = clock_timestamp()
    where t.spec_hash = hash and t.unique_among = 'waiting' and t.status in ('PENDING', 'RETRYING') and t.deleted_at is null;
end $$;
