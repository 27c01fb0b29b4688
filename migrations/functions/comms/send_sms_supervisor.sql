-- Drives one send: lock the root, read facts, settle an attempt that was lost, decide, write. Safe to run at any time, any
-- number of times, by several workers at once: they take turns at the root, and each sees what the one before wrote.
create or replace function comms.send_sms_supervisor(payload jsonb) returns jsonb
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    root comms.send_sms_task;
    facts comms.process_facts;
    decision comms.decision;
    decided text;
begin
    select r.* into root from comms.send_sms_task r
    where r.send_sms_task_id = comms.id_of(payload -> 'send_sms_task_id') for no key update;
    if root.send_sms_task_id is null then
        return comms.refused('the payload names no send_sms_task_id that exists');
    end if;

    facts := comms.read_send_sms_facts(root.send_sms_task_id);
    if not facts.has_ended and facts.task_is_over then
        decided := comms.settle_lost_sms(root, facts);
        facts := comms.read_send_sms_facts(root.send_sms_task_id);
    end if;
    decision := comms.decide(facts);

    if decision.verdict = 'schedule' then
        decided := concat_ws(', ', decided, comms.schedule_sms_attempt(root, decision.purpose));
    elsif decision.verdict = 'end' then
        decided := concat_ws(', ', decided, 'end ' || decision.outcome);
        insert into comms.send_sms_task_ended (send_sms_task_id, outcome, reason)
        values (root.send_sms_task_id, decision.outcome, decision.reason);
    end if;
    if decided is not null then
        insert into comms.send_sms_task_decided (send_sms_task_id, decision) values (root.send_sms_task_id, decided);
    end if;
    if decision.verdict in ('over', 'end') then
        perform comms.end_sms_supervision(root);
    else
        perform comms.supervise_sms(root, decision.next_check);
    end if;
    return jsonb_build_object('success', true, 'payload', jsonb_strip_nulls(jsonb_build_object(
        'decided', decided, 'next_check', decision.next_check)));
end $$;
