-- A witness inside the database: what became of every row, whoever did it. Part of the tests, not of Reproq.
create schema faults;

create table faults.journal (
    seq          bigint generated always as identity primary key,
    task_id      bigint not null,
    at           timestamptz not null,
    old_status   text not null,
    new_status   text not null,
    old_claim    bigint not null,
    new_claim    bigint not null,
    was_leased   boolean not null,
    is_leased    boolean not null,
    old_attempts integer not null,
    new_attempts integer not null,
    worker_id    text,
    writer       text,
    lease_end    timestamptz
);

create function faults.note() returns trigger language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    insert into faults.journal (task_id, at, old_status, new_status, old_claim, new_claim, was_leased, is_leased,
                                old_attempts, new_attempts, worker_id, writer, lease_end)
    values (new.id, clock_timestamp(), old.status, new.status, old.claim_no, new.claim_no,
            old.leased_until is not null, new.leased_until is not null, old.attempt_count, new.attempt_count,
            case when old.leased_until is null then new.worker_id else old.worker_id end,
            nullif(current_setting('faults.writer', true), ''), old.leased_until);
    return null;
end $$;

-- A heartbeat changes neither of these columns' nullness nor the claim: it isn't noted, unless it is that of another
-- worker than the one that holds the row. Each worker's sessions say in a setting of their own whose they are.
create trigger zz_faults_journal after update on queues.task_runs for each row
    when (old.status <> new.status or old.claim_no <> new.claim_no or old.attempt_count <> new.attempt_count
          or (old.leased_until is null) <> (new.leased_until is null)
          or (old.completed_at is not null and (old.completed_at, old.result_json, old.last_error)
              is distinct from (new.completed_at, new.result_json, new.last_error))
          or (old.leased_until is not null
              and not starts_with(old.worker_id, nullif(current_setting('faults.writer', true), '') || '/')))
    execute function faults.note();
