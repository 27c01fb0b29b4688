-- The thinking of both supervisors: from facts to a decision, without reading or writing anything.
create or replace function comms.decide(f comms.process_facts) returns comms.decision
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
declare
    d comms.decision;
    due timestamptz;
    used_up text := case when f.attempts_used >= f.max_attempts then 'attempts_used_up'
                         when f.decisions >= f.run_limit then 'run_limit' end;
    gives_up_at timestamptz := case when f.first_started_at is not null then greatest(f.scheduled_at, f.first_started_at) + f.patience end;
begin
    if f.has_ended then
        d.verdict := 'over';
        return d;
    elsif f.has_succeeded then
        d.verdict := 'end';
        d.outcome := 'succeeded';
        return d;
    elsif f.attempt_id is not null then
        d.verdict := 'wait';
        d.next_check := f.at + comms.growing_delay(f.at - f.waits_since, f.check_base, f.check_cap);
        return d;
    end if;

    if f.unknown_at is not null then
        return comms.decide_unknown(f, used_up);
    end if;
    due := greatest(f.scheduled_at, f.last_failed_at + greatest(comms.backoff(f.failures, f.backoff_base, f.backoff_cap),
                                                                f.retry_after));
    if f.permanent_kind is not null or used_up is not null then
        d.verdict := 'end';
        d.outcome := case when f.permanent_kind is null and used_up = 'run_limit' then 'run_limit' else 'failed' end;
        d.reason := coalesce(f.permanent_kind, used_up);
    elsif f.failures > 0 and due >= gives_up_at then
        d.verdict := 'end';
        d.outcome := 'deadline';
        d.reason := 'no_attempt_in_time';
    elsif f.at < due then
        d.verdict := 'wait';
        d.next_check := due;
    else
        d.verdict := 'schedule';
        d.purpose := 'send';
        d.next_check := f.at + f.check_base;
    end if;
    return d;
end $$;
