-- Everything the supervisor of a send knows, in one place: the caller has locked the root.
create or replace function comms.read_send_sms_facts(send_sms_task_id bigint) returns comms.process_facts
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    f comms.process_facts;
begin
    f.at := clock_timestamp();
    select r.scheduled_at, r.patience, r.max_attempts, r.run_limit, r.on_unknown, s.backoff_base, s.backoff_cap, s.check_base, s.check_cap
    into f.scheduled_at, f.patience, f.max_attempts, f.run_limit, f.on_unknown, f.backoff_base, f.backoff_cap, f.check_base, f.check_cap
    from comms.send_sms_task r, comms.setting s where r.send_sms_task_id = read_send_sms_facts.send_sms_task_id;
    f.has_ended := exists (select from comms.send_sms_task_ended e where e.send_sms_task_id = read_send_sms_facts.send_sms_task_id);
    f.has_succeeded := comms.has_send_sms_task_succeeded(send_sms_task_id);
    f.failures := comms.count_send_sms_task_failures(send_sms_task_id);

    -- An attempt that never reached its provider uses up nothing, the decision for it included: patience bounds these. Nor
    -- does one of which nobody knows: its provider's memory bounds those.
    select count(*) filter (where x.kind not in ('never_started', 'provider_unavailable', 'not_found')),
           min(x.kind) filter (where x.permanent), max(x.created_at), max(x.created_at) filter (where x.kind = 'not_found'),
           - count(*) filter (where x.kind = 'provider_unavailable')
    into f.attempts_used, f.permanent_kind, f.last_failed_at, f.not_found_at, f.decisions
    from comms.send_sms_task_failed x where x.send_sms_task_id = read_send_sms_facts.send_sms_task_id;
    select f.decisions + count(*) into f.decisions
    from comms.send_sms_task_decided x where x.send_sms_task_id = read_send_sms_facts.send_sms_task_id
      and x.decision !~ '^unknown: attempt [0-9]+$';
    select x.retry_after into f.retry_after
    from comms.send_sms_task_failed x where x.send_sms_task_id = read_send_sms_facts.send_sms_task_id
    order by x.created_at desc, x.attempt_id desc limit 1;

    f.first_started_at := comms.first_start_of_send_sms_task(send_sms_task_id);
    select max(u.created_at), count(*), (array_agg(x.resolves_by order by u.created_at desc))[1], f.decisions - count(*)
    into f.unknown_at, f.unknowns, f.resolves_by, f.decisions
    from comms.send_sms_task_unknown u join comms.send_sms_task_started x using (attempt_id)
    where u.send_sms_task_id = read_send_sms_facts.send_sms_task_id;
    select count(*) into f.lookups
    from comms.send_sms_task_scheduled a
    where a.send_sms_task_id = read_send_sms_facts.send_sms_task_id and a.purpose = 'lookup';

    select a.attempt_id, a.attempt_no, a.task_run_id, a.created_at, x.attempt_id is not null, queues.is_over(a.task_run_id)
    into f.attempt_id, f.attempt_no, f.task_run_id, f.waits_since, f.has_started, f.task_is_over
    from comms.send_sms_task_scheduled a left join comms.send_sms_task_started x using (attempt_id)
    where a.send_sms_task_id = read_send_sms_facts.send_sms_task_id
      and not exists (select from comms.send_sms_task_succeeded o where o.attempt_id = a.attempt_id)
      and not exists (select from comms.send_sms_task_failed o where o.attempt_id = a.attempt_id)
      and not exists (select from comms.send_sms_task_unknown o where o.attempt_id = a.attempt_id)
    order by a.attempt_no desc limit 1;
    return f;
end $$;
