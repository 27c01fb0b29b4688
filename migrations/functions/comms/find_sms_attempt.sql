-- The attempt that a handler's payload means, its root locked: null unless both belong together and the handler is called
-- for the attempt's own task. Whoever names a handler in another payload, or calls it by hand, speaks for no attempt.
create or replace function comms.find_sms_attempt(payload jsonb) returns comms.send_sms_task_scheduled
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    attempt comms.send_sms_task_scheduled;
begin
    perform from comms.send_sms_task r
    where r.send_sms_task_id = comms.id_of(payload -> 'send_sms_task_id') for no key update;
    select a.* into attempt from comms.send_sms_task_scheduled a
    where a.attempt_id = comms.id_of(payload -> 'attempt_id')
      and a.send_sms_task_id = comms.id_of(payload -> 'send_sms_task_id')
      and queues.is_execution(a.task_run_id, payload);
    return attempt;
end $$;
