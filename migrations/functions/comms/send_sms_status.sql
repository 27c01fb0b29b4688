-- How a send stands, for whoever asked for it: state is scheduled, sending, or how it ended.
create or replace function comms.send_sms_status(send_sms_task_id bigint) returns jsonb
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    root comms.send_sms_task;
    facts comms.process_facts;
    ended comms.send_sms_task_ended;
    success comms.send_sms_task_succeeded;
    last_kind text;
    resolution text;
begin
    select r.* into root from comms.send_sms_task r
    where r.send_sms_task_id = send_sms_status.send_sms_task_id and internal.may_touch(r.created_by);
    if root.send_sms_task_id is null then
        return null;
    end if;
    facts := comms.read_send_sms_facts(root.send_sms_task_id);
    select e.* into ended from comms.send_sms_task_ended e where e.send_sms_task_id = root.send_sms_task_id;
    select s.* into success from comms.send_sms_task_succeeded s where s.send_sms_task_id = root.send_sms_task_id;
    select f.kind into last_kind from comms.send_sms_task_failed f where f.send_sms_task_id = root.send_sms_task_id
    order by f.created_at desc, f.attempt_id desc limit 1;
    select x.resolution into resolution from comms.send_sms_task_resolved x where x.send_sms_task_id = root.send_sms_task_id;
    return jsonb_strip_nulls(jsonb_build_object(
        'send_sms_task_id', root.send_sms_task_id, 'message_id', root.message_id,
        'state', case when success.attempt_id is not null then 'succeeded' when ended.outcome is not null then ended.outcome
                      when comms.count_send_sms_task_scheduled(root.send_sms_task_id) = 0 then 'scheduled' else 'sending' end,
        'scheduled_at', root.scheduled_at, 'attempts', comms.count_send_sms_task_scheduled(root.send_sms_task_id),
        'failures', facts.failures, 'last_failure', last_kind, 'reason', ended.reason, 'resolution', resolution,
        'provider', success.provider, 'provider_message_id', success.provider_message_id, 'sent_at', success.created_at,
        'ended_at', ended.created_at));
end $$;
