-- The attempt that a handler's payload means, its root locked: null unless both belong together. The child adds
-- "execution" to the payload; a task that another attempt was scheduled with doesn't speak for this one.
create or replace function comms.find_email_attempt(payload jsonb) returns comms.send_email_task_scheduled
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    attempt comms.send_email_task_scheduled;
begin
    perform from comms.send_email_task r
    where r.send_email_task_id = comms.id_of(payload -> 'send_email_task_id') for no key update;
    select a.* into attempt from comms.send_email_task_scheduled a
    where a.attempt_id = comms.id_of(payload -> 'attempt_id')
      and a.send_email_task_id = comms.id_of(payload -> 'send_email_task_id')
      and a.task_run_id = coalesce(comms.id_of(payload #> '{execution,task_run_id}'), a.task_run_id);
    return attempt;
end $$;
