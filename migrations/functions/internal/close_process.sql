-- The process has ended: its supervisor waits no more, and nobody resumes it. The first time that is said it is an event,
-- if the queue wants that.
create or replace function internal.close_process(supervisor text, ids jsonb, queue_name text, outcome text) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    hash text := queues.spec_hash('db_function', queue_name, internal.supervisor_payload(supervisor, ids));
    process text := regexp_replace(supervisor, '_supervisor$', '');
begin
    delete from internal.open_process p where p.spec_hash = hash;
    if found and exists (select from queues.queue_settings s where s.queue_name = close_process.queue_name and s.engine_events) then
        perform internal.add_outbox_event(
            'reproq.process.ended',
            left(regexp_replace(process || '/' || (select string_agg(i.value, '/' order by i.key) from jsonb_each_text(ids) i),
                                '[[:cntrl:]]', '?', 'g'), 500),
            jsonb_strip_nulls(jsonb_build_object('process', process, 'ids', ids, 'queue_name', queue_name, 'outcome', outcome)), false);
    end if;
    update queues.task_runs t
    set status = 'CANCELLED', completed_at = clock_timestamp(), failure_kind = 'superseded',
        last_error = 'its process has ended', updated_at = clock_timestamp()
    where t.spec_hash = hash and t.unique_among = 'waiting' and t.status in ('PENDING', 'RETRYING') and t.deleted_at is null;
end $$;
