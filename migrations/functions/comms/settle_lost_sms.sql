-- The task of an attempt is over, and the attempt has no outcome. A stored answer is recorded now; what never started
-- failed without having used anything up; of all else nobody knows whether it arrived.
create or replace function comms.settle_lost_sms(root comms.send_sms_task, facts comms.process_facts) returns text
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    answer jsonb := (
        select c.answer from queues.channel_call c
        where c.task_id = facts.task_run_id and c.answer is not null order by c.claim_no desc limit 1);
    attempt comms.send_sms_task_scheduled := (
        select a from comms.send_sms_task_scheduled a where a.attempt_id = facts.attempt_id);
    recorded jsonb;
begin
    if not facts.has_started then
        insert into comms.send_sms_task_failed (attempt_id, send_sms_task_id, kind, permanent)
        values (facts.attempt_id, root.send_sms_task_id, 'never_started', false);
        return 'never started: attempt ' || facts.attempt_no;
    elsif answer is null then
        insert into comms.send_sms_task_unknown (attempt_id, send_sms_task_id) values (facts.attempt_id, root.send_sms_task_id);
        return 'unknown: attempt ' || facts.attempt_no;
    elsif answer ? 'error' then
        recorded := comms.note_sms_failure(attempt, jsonb_build_object('error', answer -> 'error'));
    else
        recorded := comms.note_sms_success(attempt, jsonb_build_object('worker_payload', answer));
    end if;
    if recorded -> 'success' is distinct from 'true' then
        raise exception using message = format('the stored answer of attempt %s was refused: %s', facts.attempt_id, recorded);
    end if;
    return 'recorded: attempt ' || facts.attempt_no;
end $$;
