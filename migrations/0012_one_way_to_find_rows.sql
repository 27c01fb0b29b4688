-- No statement is planned by the size of the table any more: see docs/decisions/014.
drop function if exists internal.plan_by_size();

-- Every statement that writes reads these conditions from their text again, which was half of what it cost to update one row.
-- So they are few and short. The order of the statuses says what is final: from SUCCESSFUL on.
alter table queues.task_runs
    drop constraint running_is_leased, drop constraint a_lease_has_a_holder, drop constraint completed_is_final,
    drop constraint success_leaves_no_error, drop constraint success_has_a_result, drop constraint failure_has_a_kind,
    drop constraint attempts_are_bounded, drop constraint only_waiting_waits, drop constraint a_slot_is_of_a_key,
    drop constraint counters_are_counts,
    add constraint running_is_leased check (
        case when leased_until is null then status <> 'RUNNING' else worker_id is not null and status in ('RUNNING', 'CANCELLED') end),
    add constraint completed_is_final check ((completed_at is null) = (status < 'SUCCESSFUL')),
    add constraint an_end_says_how check (
        case status when 'SUCCESSFUL' then result_json is not null and failure_kind is null and error_json is null and last_error is null
                    when 'FAILED' then failure_kind is not null else true end),
    add constraint attempts_are_bounded check (attempt_count <= max_attempts),
    add constraint only_waiting_waits check (waiting_for = 0 or status in ('PENDING', 'RETRYING', 'CANCELLED')),
    add constraint a_slot_is_of_a_key check (case when limit_key is null then limit_slot is null else limit_slot > 0 end),
    add constraint counters_are_counts check (least(attempt_count, give_backs, waiting_for) >= 0 and claim_no >= 0);

-- They have other arguments now.
drop function if exists queues.watch_tasks(bigint[], text[], integer);
drop function if exists internal.take_merged(text, interval, internal.lane[], integer, bigint);
drop function if exists internal.take_merged(text, interval, internal.lane[], integer, integer, bigint);
drop function if exists internal.reclaim();
drop function if exists internal.look(text[], text[], jsonb);
drop function if exists internal.queues_with_work(text[]);
drop function if exists internal.read_hints(jsonb, bigint);

-- How many of 500 rows claimed were its own of late; and, of a bundle, the lanes in it: see internal.arrange.
alter type internal.lane add attribute share real, add attribute more text;
