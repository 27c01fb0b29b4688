-- Time: schedules, and how long things are kept.

-- A slot of a schedule is enqueued exactly once: whoever does it locks this row, moves next_slot, and writes the slot down.
create table queues.schedules (
    schedule_name text primary key
        constraint schedule_name_is_plain check (schedule_name ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]*$' and length(schedule_name) <= 100),
    cron          text,
    every         interval constraint every_is_positive check (every >= interval '1 second' and every <= interval '366 days'),
    time_zone     text not null default 'UTC',
    task_type     queues.task_type not null,
    payload_json  queues.payload not null default '{}',
    queue_name    queues.queue_name not null default 'default',
    priority      queues.priority not null default 0,
    max_attempts  queues.attempts,
    catch_up      text not null default 'one' constraint catch_up_is_known check (catch_up in ('none', 'one', 'all')),
    enabled       boolean not null default true,
    next_slot     timestamptz,
    last_slot     timestamptz,
    last_task_id  bigint,
    last_error    text,
    tried_at      timestamptz,
    created_by    text not null default session_user,
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now(),
    constraint cron_or_every check ((cron is null) <> (every is null))
);
create index schedules_due on queues.schedules (next_slot) where enabled;

create table internal.schedule_slot (
    schedule_name text not null,
    slot          timestamptz not null,
    task_id       bigint,
    primary key (schedule_name, slot)
);

-- How long final rows stay; a queue's own setting wins. Null: for ever.
alter table queues.settings
    add keep_successful interval default '7 days' check (keep_successful >= interval '0'),
    add keep_cancelled  interval default '7 days' check (keep_cancelled >= interval '0'),
    add keep_failed     interval default '90 days' check (keep_failed >= interval '0'),
    add keep_events     interval default '90 days' check (keep_events >= interval '0'),
    add keep_processes  interval default '90 days' check (keep_processes >= interval '1 hour');
alter table queues.queue_settings
    add keep_successful interval check (keep_successful >= interval '0'),
    add keep_cancelled  interval check (keep_cancelled >= interval '0'),
    add keep_failed     interval check (keep_failed >= interval '0');

-- Where retention goes on: it walks along the ids, because an index on completed_at would cost every finish.
create table internal.retention (
    only_row boolean primary key default true check (only_row),
    after_id bigint not null default 0
);
insert into internal.retention default values;

alter table queues.workers add leads boolean not null default false;
