-- The outbox: events that are written in the transaction they tell of, and their way to each sink.

create domain queues.event_type as text collate "C"
    constraint event_type_is_plain check (value ~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$' and octet_length(value) <= 200);
-- One line of text: it becomes a header.
create domain queues.event_subject as text collate "C"
    constraint subject_is_one_line check (value !~ '[[:cntrl:]]' and length(value) between 1 and 500);

create table queues.outbox_event (
    id           bigint generated always as identity primary key,
    event_id     uuid not null default gen_random_uuid(),  -- fixed here, so the same on every repeat
    event_type   queues.event_type not null,
    subject      queues.event_subject,
    ordered      boolean not null,
    data         jsonb,
    size         integer not null,
    sinks_open   integer not null constraint sinks_are_counted check (sinks_open >= 0),
    published_at timestamptz,  -- since when no sink waits for it
    created_by   text not null default session_user,
    created_at   timestamptz not null default clock_timestamp(),
    constraint published_is_nobody_waits check ((published_at is not null) = (sinks_open = 0)),
    constraint order_needs_a_subject check (subject is not null or not ordered)
) with (fillfactor = 90);
create index outbox_event_published on queues.outbox_event (published_at) where published_at is not null;
create unique index outbox_event_event_id on queues.outbox_event (event_id);

create table queues.sinks (
    sink_name       text collate "C" primary key constraint sink_name_is_plain check (
        sink_name ~ '^[a-z][a-z0-9_]*$' and length(sink_name) <= 50 and sink_name !~ '_file$'),
    url             text not null constraint url_is_http check (
        url ~ '^https?://[^[:space:][:cntrl:]@/?#]+([/?][^[:space:][:cntrl:]#]*)?$' and length(url) <= 2000),
    mode            text not null constraint mode_is_known check (mode in ('structured', 'binary', 'batched')),
    type_prefixes   text[] constraint prefixes_are_few check (cardinality(type_prefixes) between 1 and 100),
    signed          boolean not null,
    allow_private   boolean not null,
    max_attempts    integer not null constraint attempts_in_range check (max_attempts between 1 and 1000),
    max_age         interval not null constraint age_in_range check (max_age between interval '1 second' and interval '90 days'),
    timeout_s       queues.seconds not null constraint timeout_in_range check (timeout_s between 0.1 and 60),
    batch_size      integer not null constraint batch_in_range check (batch_size between 1 and 1000),
    backoff_base    interval not null constraint base_is_positive check (backoff_base > interval '0'),
    backoff_cap     interval not null constraint cap_in_range check (backoff_cap > interval '0' and backoff_cap <= interval '7 days'),
    enabled         boolean not null default true,
    disabled_at     timestamptz,
    disabled_reason text,
    failures        integer not null default 0,          -- in a row
    resume_at       timestamptz not null default 'epoch', -- nothing is sent before
    created_by      text not null default session_user,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    constraint plain_http_stays_inside check (url like 'https:%' or allow_private),
    constraint disabled_has_a_time check (enabled = (disabled_at is null))
) with (fillfactor = 50);

-- One row for each event and sink that wants it, made with the event. `subject` is null where no order is kept.
create table queues.outbox_delivery (
    event_id     bigint not null references queues.outbox_event on delete cascade,
    sink         text collate "C" not null,
    subject      queues.event_subject,
    state        text not null default 'waiting' constraint state_is_known check (state in ('waiting', 'delivered', 'parked')),
    attempts     integer not null default 0,
    next_at      timestamptz not null default now(),
    claim_no     bigint not null default 0,
    leased_until timestamptz,
    first_at     timestamptz,  -- of the first attempt
    ended_at     timestamptz,
    last_status  integer,
    last_error   text,
    primary key (event_id, sink),
    constraint only_waiting_is_leased check (leased_until is null or state = 'waiting'),
    constraint ended_has_a_time check ((ended_at is null) = (state = 'waiting'))
) with (fillfactor = 70);
-- From subject to subject, and to the lowest of each. No column that a claim writes is in it.
create index outbox_delivery_waiting on queues.outbox_delivery (sink, subject, event_id) where state = 'waiting';
create index outbox_delivery_parked on queues.outbox_delivery (sink, event_id) where state = 'parked';

-- One row.
create table queues.outbox_settings (
    only_row       boolean primary key default true check (only_row),
    event_source   text not null default '/reproq' constraint source_is_a_reference check (
        event_source ~ '^[!-~]+$' and length(event_source) <= 500),
    keep_published interval default '7 days' check (keep_published >= interval '0'),
    keep_parked    interval default '90 days' check (keep_parked >= interval '0')
);
insert into queues.outbox_settings default values;

-- Does a queue want its failures, processes and lost workers told as events?
alter table queues.queue_settings add engine_events boolean not null default false;

-- What a reader sees: no data, no subject (the application's own key), of an address its host only, no text of an error.
create view queues.outbox_redacted as
    select id, event_id, event_type, ordered, size, sinks_open, published_at, created_by, created_at from queues.outbox_event;
create view queues.deliveries_redacted as
    select event_id as id, sink, state, attempts, next_at, leased_until, first_at, ended_at, last_status from queues.outbox_delivery;
create view queues.sinks_redacted as
    select sink_name, substring(url from '^https?://[^/?]+') as host, mode, type_prefixes, signed, allow_private, max_attempts,
           max_age, timeout_s, enabled, disabled_at, failures, nullif(resume_at, 'epoch') as resume_at, created_by, created_at, updated_at
    from queues.sinks;
