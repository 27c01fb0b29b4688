-- Flow: what may not run now (paused, too many at once, too fast), and what waits for other tasks.

-- One row: who changes anything below raises the version, so that no worker goes on by what it knew before; and flags, so
-- that what nobody uses costs nothing.
create table internal.flow (
    only_row   boolean primary key default true check (only_row),
    version    bigint not null default 1,
    lanes      boolean not null default false,  -- some queue or type has a limit
    keys       boolean not null default false,  -- some task has a limit_key
    parents    boolean not null default false,  -- some task waits for others
    swept_at   timestamptz not null default '-infinity'
);
insert into internal.flow default values;

alter table queues.task_types add paused boolean not null default false;

-- At most so many at once, over all workers; at most so many per second, with a bucket of `burst`.
create table queues.limits (
    scope       text not null constraint scope_is_known check (scope in ('queue', 'type', 'key')),
    name        text not null constraint limit_has_a_name check (length(name) between 1 and 500),
    concurrency integer constraint concurrency_in_range check (concurrency between 1 and 100000),
    rate        double precision constraint rate_in_range check (rate > 0 and rate <= 1000000),
    burst       double precision constraint burst_holds_one check (burst >= 1 and burst <= 10000000),
    tokens      double precision,
    filled_at   timestamptz,
    updated_at  timestamptz not null default now(),
    primary key (scope, name),
    constraint limit_limits_something check (concurrency is not null or rate is not null),
    constraint rate_has_a_bucket check ((rate is null) = (burst is null))
);

-- A task with a limit_key waits outside of the claim index (waiting_for counts its key as one) until it is admitted to a
-- slot of its key, which it holds until it is over or goes back. So a blocked one is never in anybody's way.
alter table queues.task_runs drop constraint only_pending_waits;
alter table queues.task_runs add constraint only_waiting_waits check (
    waiting_for = 0 or (waiting_for > 0 and status in ('PENDING', 'RETRYING', 'CANCELLED')));
alter table queues.task_runs add constraint a_slot_is_of_a_key check (limit_slot is null or (limit_slot > 0 and limit_key is not null));
create unique index task_runs_slot on queues.task_runs (limit_key, limit_slot) where limit_slot is not null;
create index task_runs_parked on queues.task_runs (limit_key, priority desc, run_after, id)
    where limit_key is not null and limit_slot is null and status in ('PENDING', 'RETRYING') and deleted_at is null;

-- Who waits for whom. An edge goes when its parent is over.
create table queues.task_dependency (
    parent_id bigint not null,
    child_id  bigint not null,
    policy    text not null constraint policy_is_known check (policy in ('succeeded', 'over')),
    primary key (parent_id, child_id)
);
alter table queues.task_runs add has_children boolean not null default false;
-- Parents that are over and whose children have not been told yet: told by whoever comes next.
create table internal.parent_over (parent_id bigint primary key);

create function internal.leave_slot() returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp as 'begin return new; end';
create function internal.note_end() returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp as 'begin return null; end';
-- By state, so that no way of ending can forget it; their bodies are files of their own. Two, not four: a condition costs
-- every update 0.1 µs.
create trigger task_runs_leave_slot before update on queues.task_runs
    for each row when (new.limit_key is not null and (
        (old.limit_slot is not null and new.limit_slot is not null and new.leased_until is null
         and (old.leased_until is not null or new.completed_at is not null or new.deleted_at is not null))
        or (old.completed_at is not null and new.completed_at is null)))
    execute function internal.leave_slot();
create trigger task_runs_note_end after update on queues.task_runs
    for each row when ((old.limit_slot is not null and new.limit_slot is null)
        or (new.has_children and new.leased_until is null and (new.completed_at is not null or new.deleted_at is not null)
            and (old.leased_until is not null or (old.completed_at is null and old.deleted_at is null))))
    execute function internal.note_end();

-- What is left of the limit of a queue or type while a claim is made.
create type internal.cap as (scope text, name text, left_over integer);

-- Arguments have come to these; their old forms would be another function beside.
drop function if exists
    queues.enqueue(text, jsonb, timestamptz, text, integer, text, integer, text, interval, bigint[], text, text),
    queues.enqueue_once(text, jsonb, timestamptz, text, integer, text, integer, text, interval, bigint[], text, text),
    queues.enqueue_many(text, jsonb[], timestamptz, text, integer, text[], integer, text, interval, bigint[], text, text),
    queues.enqueue_system(text, jsonb, timestamptz, text, integer, text, integer, text, interval, bigint[], text, text, boolean),
    internal.enqueue_row(
        text, jsonb, timestamptz, text, integer, text, integer, text, interval, bigint[], text, boolean, text, boolean, boolean),
    internal.take_turns(text, interval, integer, bigint, internal.lane[], integer[], text);
create index task_types_paused on queues.task_types (task_type) where paused;
