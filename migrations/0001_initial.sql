-- The engine's tables. Everything that reads or writes them is a function (functions/); no role gets a right on a table.

create type queues.task_status as enum ('PENDING', 'RUNNING', 'RETRYING', 'SUCCESSFUL', 'FAILED', 'CANCELLED');

-- Collation "C": prefixes and lanes are ranges of bytes, whatever the database's language. The length apart: a bound inside
-- the expression ({0,199}) made it forty times slower, 5 µs and more.
create domain queues.task_type as text collate "C"
    check (value ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]*$' and octet_length(value) <= 200);
create domain queues.queue_name as text collate "C"
    check (value ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]*$' and octet_length(value) <= 100);
-- What concerns one column is a domain: a table's CHECKs are read from their text again by every statement, 1.5 µs each.
create domain queues.priority as integer
    constraint priority_in_range check (value between -1000000 and 1000000);
create domain queues.attempts as integer
    constraint max_attempts_in_range check (value between 1 and 100000);
create domain queues.moment as timestamptz
    constraint run_after_is_a_date check (value >= timestamptz '1970-01-01 00:00:00+00' and value < timestamptz '9000-01-01 00:00:00+00');
create domain queues.payload as jsonb
    constraint payload_is_an_object check (jsonb_typeof(value) = 'object');
create domain queues.seconds as double precision
    constraint timeout_is_positive check (value > 0 and value <= 31622400);
create domain queues.uniqueness as text
    constraint unique_among_is_known check (value in ('active', 'waiting'));
create domain queues.key as text
    constraint key_has_a_length check (length(value) between 1 and 500);
create domain queues.trace as text
    constraint trace_has_a_length check (length(value) <= 1000);

create table queues.task_runs (
    id              bigint generated always as identity primary key,
    task_type       queues.task_type not null,
    queue_name      queues.queue_name not null default 'default',
    status          queues.task_status not null default 'PENDING',
    priority        queues.priority not null default 0,
    run_after       queues.moment not null default now(),
    payload_json    queues.payload not null default '{}',
    result_json     jsonb,
    error_json      jsonb,
    last_error      text,
    failure_kind    text,
    spec_hash       text not null,
    idempotency_key queues.key,
    unique_among    queues.uniqueness,
    attempt_count   integer not null default 0,
    max_attempts    queues.attempts not null default 3,
    attempts_open   boolean not null default false,  -- nobody has said how many: once known, the type's number counts
    give_backs      integer not null default 0,
    worker_id       text,
    claim_no        bigint not null default 0,
    leased_until    timestamptz,
    timeout_s       queues.seconds,
    waiting_for     integer not null default 0,
    limit_key       queues.key,
    limit_slot      integer,
    supervised      boolean not null default false,
    replay_of       bigint,
    trace           queues.trace,
    created_by      text not null default session_user,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    claimed_at      timestamptz,
    started_at      timestamptz,
    completed_at    timestamptz,
    deleted_at      timestamptz,
    delete_reason   text,

    constraint running_is_leased check (status <> 'RUNNING' or leased_until is not null),
    constraint a_lease_has_a_holder check (
        leased_until is null or (status in ('RUNNING', 'CANCELLED') and worker_id is not null)),
    constraint completed_is_final check (
        (completed_at is not null) = (status in ('SUCCESSFUL', 'FAILED', 'CANCELLED'))),
    constraint success_leaves_no_error check (
        status <> 'SUCCESSFUL' or (failure_kind is null and error_json is null and last_error is null)),
    constraint success_has_a_result check (status <> 'SUCCESSFUL' or result_json is not null),
    constraint failure_has_a_kind check (status <> 'FAILED' or failure_kind is not null),
    constraint attempts_are_bounded check (attempt_count between 0 and max_attempts),
    constraint only_pending_waits check (waiting_for = 0 or (waiting_for > 0 and status in ('PENDING', 'CANCELLED'))),
    constraint counters_are_counts check (give_backs >= 0 and claim_no >= 0),
    constraint reason_needs_deletion check (deleted_at is not null or delete_reason is null)
) with (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 1
);

-- Serves the order of a claim inside one lane (queue, type, priority) and the step from lane to lane.
create index task_runs_claim on queues.task_runs (queue_name, task_type, priority desc, run_after, id)
    where status in ('PENDING', 'RETRYING') and waiting_for = 0 and deleted_at is null;
-- Serves the reclaim of expired leases. No statement that finishes a task may imply its predicate (docs/decisions/002).
create index task_runs_lease on queues.task_runs (leased_until) where leased_until is not null;
create unique index task_runs_idempotency on queues.task_runs (task_type, idempotency_key)
    where idempotency_key is not null and deleted_at is null;
create unique index task_runs_unique_active on queues.task_runs (spec_hash)
    where unique_among = 'active' and status in ('PENDING', 'RETRYING', 'RUNNING') and deleted_at is null;
create unique index task_runs_unique_waiting on queues.task_runs (spec_hash)
    where unique_among = 'waiting' and status in ('PENDING', 'RETRYING') and deleted_at is null;
create index task_runs_failed on queues.task_runs (id) where status = 'FAILED';

-- Append-only: what happened to a task, beyond what its row says.
create table queues.task_events (
    id         bigint generated always as identity primary key,
    task_id    bigint not null,
    event      text not null,
    claim_no   bigint,
    attempt    integer,
    worker_id  text,
    detail     jsonb,
    created_at timestamptz not null default clock_timestamp(),
    constraint event_is_known check (event in (
        'created', 'claimed', 'started', 'succeeded', 'failed', 'retried', 'given_back', 'lease_expired',
        'cancelled', 'stopped', 'deleted', 'replayed'))
);
create index task_events_of_a_task on queues.task_events (task_id, id);

-- Append-only: errors that somebody should see although no task failed of them.
create table queues.error (
    id            bigint generated always as identity primary key,
    task_id       bigint,
    claim_no      bigint,
    source        text not null,
    function_name text,
    message       text not null,
    detail        jsonb,
    created_at    timestamptz not null default clock_timestamp()
);
create index error_by_time on queues.error (created_at);

-- Telemetry only: no decision about a task reads it.
create table queues.workers (
    id             text primary key,
    hostname       text not null,
    pid            integer not null,
    version        text not null,
    queues         text[],
    prefixes       text[],
    task_types     text[],
    takes_unknown  boolean not null default true,
    pool_size      integer not null,
    started_at     timestamptz not null default now(),
    last_heartbeat timestamptz not null default now()
);

-- Who sleeps, and until when: an enqueue notifies only these. Unlogged: lost in a crash, laid down again by the next poll.
create unlogged table queues.sleeper (
    worker_id text primary key,
    queues    text[],
    prefixes  text[],
    until     timestamptz not null
) with (fillfactor = 50);

create table queues.queue_settings (
    queue_name queues.queue_name primary key,
    paused     boolean not null default false,
    audit      text not null default 'unusual',
    updated_at timestamptz not null default now(),
    constraint audit_is_known check (audit in ('unusual', 'all'))
);

-- What the children reported of their types, so that SQL knows it without their code.
create table queues.task_types (
    task_type        queues.task_type primary key,
    max_attempts     queues.attempts,
    timeout_s        queues.seconds,
    lease            interval,
    backoff_base     interval,
    backoff_cap      interval,
    dead_letter_type queues.task_type,
    updated_at       timestamptz not null default now(),
    constraint lease_is_positive check (lease > interval '0' and lease <= interval '1 day'),
    constraint backoff_is_positive check (
        backoff_base > interval '0' and backoff_cap > interval '0' and backoff_cap <= interval '366 days')
);

-- One row: the limits that SQL enforces.
create table queues.settings (
    only_row          boolean primary key default true check (only_row),
    max_payload_bytes integer not null default 1048576 check (max_payload_bytes between 2 and 268435456),
    max_depth         integer not null default 64 check (max_depth between 1 and 64),
    max_digits        integer not null default 1000 check (max_digits between 20 and 1000),
    max_give_backs    integer not null default 10 check (max_give_backs >= 1)
);
insert into queues.settings default values;

-- Schemas whose functions a payload may name. Never queues, internal or a system schema.
create table internal.callable_schema (
    schema_name name primary key,
    added_by    text not null default session_user,
    added_at    timestamptz not null default now(),
    constraint engine_is_not_callable check (
        schema_name not in ('queues', 'internal', 'information_schema') and schema_name !~ '^pg_')
);
insert into internal.callable_schema (schema_name) values ('comms');

-- One lane of the claim index: where its next row starts, and which pool of the worker serves it.
create type internal.lane as (
    pool integer, queue_name text, task_type text, priority integer, run_after timestamptz, id bigint);

-- A row as a claim hands it out.
create type internal.claimed as (
    id bigint, claim_no bigint, task_type text, queue_name text, payload_json jsonb, attempt_count integer,
    max_attempts integer, timeout_s double precision, idempotency_key text, priority integer, run_after timestamptz,
    created_at timestamptz, trace text);

create function internal.touch_updated_at() returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp as $$
begin
    new.updated_at := clock_timestamp();
    return new;
end $$;
-- The functions set it themselves: an unconditional trigger cost 16 % of the rate.
create trigger task_runs_updated_at before update on queues.task_runs
    for each row when (new.updated_at is not distinct from old.updated_at)
    execute function internal.touch_updated_at();

create function internal.fill_spec_hash() returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp as $$
begin
    new.spec_hash := queues.spec_hash(new.task_type, new.queue_name, new.payload_json);
    return new;
end $$;
create trigger task_runs_spec_hash before insert on queues.task_runs
    for each row when (new.spec_hash is null) execute function internal.fill_spec_hash();

create function internal.refuse_change() returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp as $$
begin
    raise exception using errcode = 'RQ004', message = format('%s.%s is append-only', tg_table_schema, tg_table_name);
end $$;
create trigger task_events_append_only before update or truncate on queues.task_events
    for each statement execute function internal.refuse_change();
create trigger error_append_only before update or truncate on queues.error
    for each statement execute function internal.refuse_change();

create view queues.task as
    select id as task_id, task_type, payload_json as payload, created_at as enqueued_at, run_after as scheduled_at,
           claimed_at as dequeued_at
    from queues.task_runs where deleted_at is null;

create view queues.dead_letter as
    select id, task_type, queue_name, failure_kind, last_error, error_json, payload_json, attempt_count, max_attempts,
           created_at, completed_at
    from queues.task_runs where status = 'FAILED' and deleted_at is null and not supervised;
