-- Business processes: the registry of open ones, answers of providers, and the two processes that come with Reproq.
-- A process is a root row, facts that are only ever added, and a supervisor that reads them and decides (docs/processes.md).

-- Refuses every change of a fact, also by its owner. The one way out is internal.purge_processes, which marks its
-- transaction.
create function internal.facts_stay() returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp as $$
begin
    if tg_op = 'DELETE' and current_setting('reproq.purging', true) = pg_current_xact_id_if_assigned()::text then
        return null;
    end if;
    raise exception using errcode = 'RQ004', message = format('%I.%I holds facts: they are added, never changed', tg_table_schema, tg_table_name),
        hint = 'Record what has happened since as another fact.';
end $$;

-- Processes that have not ended, each with its supervisor's payload: what resume_supervisors goes by.
create table internal.open_process (
    spec_hash  text primary key,
    payload    queues.payload not null,
    queue_name queues.queue_name not null,
    opened_at  timestamptz not null default clock_timestamp()
);

-- Each call of a provider: that it begins, committed before; what it answered, committed before any handler hears of it.
create table queues.channel_call (
    task_id  bigint not null,
    claim_no bigint not null,
    begun_at timestamptz not null default clock_timestamp(),
    token    text,
    answer   queues.payload,
    primary key (task_id, claim_no)
);

-- One row: which worker keeps house, and until when. Tasks never depend on it: without a leader they run all the same.
create table queues.leader (
    only_row  boolean primary key default true check (only_row),
    worker_id text,
    term      bigint not null default 0,
    until     timestamptz not null default '-infinity'
);
insert into queues.leader default values;

-- One row: where the processes of this schema run, and how patient they are.
create table comms.setting (
    only_row     boolean primary key default true check (only_row),
    queue_name   queues.queue_name not null default 'default',
    run_limit    integer not null default 20 check (run_limit between 1 and 1000),
    patience     interval not null default '24 hours' check (patience > interval '0'),
    backoff_base interval not null default '10 seconds' check (backoff_base > interval '0'),
    backoff_cap  interval not null default '1 hour' check (backoff_cap > interval '0'),
    check_base   interval not null default '2 seconds' check (check_base > interval '0'),
    check_cap    interval not null default '5 minutes' check (check_cap > interval '0')
);
insert into comms.setting default values;

create function comms.headers_fault(headers jsonb) returns text language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
declare
    name text;
    value jsonb;
begin
    if jsonb_typeof(headers) <> 'object' or octet_length(headers::text) > 65536 then
        return 'must be an object of names and texts, of 64 KiB at most';
    end if;
    for name, value in select * from jsonb_each(headers) loop
        if name !~ '^[A-Za-z0-9-]+$' or length(name) > 100 then
            return format('hold a name that is none: %s', quote_literal(left(name, 60)));
        elsif lower(name) ~ '^(content-.*|mime-version|message-id|date|from|to|cc|bcc|sender|reply-to|subject)$' then
            return format('may not set %s', name);
        elsif jsonb_typeof(value) <> 'string' or (value #>> '{}') ~ '[[:cntrl:]]' or length(value #>> '{}') > 900 then
            return format('hold a value of %s that is no single line of text', name);
        end if;
    end loop;
    return null;
end $$;

create domain comms.line as text constraint no_line_break check (value !~ '[[:cntrl:]]' and length(value) <= 2000);
create domain comms.email_address as text constraint one_address check (
    value !~ '[[:cntrl:],;]' and length(value) between 3 and 500 and value ~ '^[^@]+@[^@]+$');
create domain comms.phone_number as text constraint international_number check (value ~ '^\+?[0-9]+$' and length(value) between 3 and 16);
create domain comms.provider_key as text constraint key_is_plain check (value ~ '^[A-Za-z0-9-]+$' and length(value) <= 100);

create table comms.message (
    message_id bigint generated always as identity primary key,
    channel    text not null constraint channel_is_known check (channel in ('email', 'sms')),
    created_by text not null default session_user,
    created_at timestamptz not null default clock_timestamp(),
    unique (message_id, channel)
);
create table comms.email_message (
    message_id   bigint primary key,
    channel      text not null default 'email' check (channel = 'email'),
    to_address   comms.email_address not null,
    from_address comms.line,
    reply_to     comms.line,
    subject      comms.line not null,
    html         text,
    text_body    text,
    headers      jsonb not null default '{}' constraint headers_are_plain check (comms.headers_fault(headers) is null),
    constraint there_is_a_body check (html is not null or text_body is not null),
    foreign key (message_id, channel) references comms.message (message_id, channel) on delete cascade
);
create table comms.sms_message (
    message_id  bigint primary key,
    channel     text not null default 'sms' check (channel = 'sms'),
    to_number   comms.phone_number not null,
    from_number comms.line,
    body        text not null constraint body_has_a_length check (length(body) between 1 and 1600),
    foreign key (message_id, channel) references comms.message (message_id, channel) on delete cascade
);
-- Addresses and bodies are gone; that they were is a fact.
create table comms.message_erased (
    message_id bigint primary key references comms.message on delete cascade,
    reason     text not null,
    erased_by  text not null default session_user,
    created_at timestamptz not null default clock_timestamp()
);
create trigger facts_stay before update or delete or truncate on comms.message_erased
    for each statement execute function internal.facts_stay();

create table comms.email_template (
    template_name text primary key constraint name_is_plain check (template_name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]*$' and length(template_name) <= 100),
    subject       comms.line not null,
    html          text,
    text_body     text,
    parameters    text[] not null,
    updated_at    timestamptz not null default clock_timestamp(),
    constraint there_is_a_body check (html is not null or text_body is not null)
);
create table comms.sms_template (
    template_name text primary key constraint name_is_plain check (template_name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]*$' and length(template_name) <= 100),
    body          text not null,
    parameters    text[] not null,
    updated_at    timestamptz not null default clock_timestamp()
);

-- What a supervisor knows when it decides, and what it decides. Both processes think alike: comms.decide.
create type comms.process_facts as (
    at               timestamptz,
    scheduled_at     timestamptz,
    patience         interval,
    max_attempts     integer,
    run_limit        integer,
    on_unknown       text,
    backoff_base     interval,
    backoff_cap      interval,
    check_base       interval,
    check_cap        interval,
    has_ended        boolean,
    has_succeeded    boolean,
    decisions        integer,      -- that count against the run limit
    failures         integer,
    attempts_used    integer,      -- failures that count against max_attempts
    permanent_kind   text,         -- of a failure that no other attempt can mend
    last_failed_at   timestamptz,
    retry_after      interval,     -- as the last failure's provider asked
    first_started_at timestamptz,
    unknown_at       timestamptz,  -- since when nobody knows whether an attempt arrived
    resolves_by      text,         -- what that attempt's provider offers: resend, lookup, park
    not_found_at     timestamptz,  -- when a lookup last answered that it has no such message
    unknowns         integer,
    lookups          integer,
    attempt_id       bigint,       -- the attempt without an outcome
    attempt_no       integer,
    task_run_id      bigint,
    waits_since      timestamptz,
    task_is_over     boolean,
    has_started      boolean
);
create type comms.decision as (
    verdict    text,          -- over, end, schedule, wait
    outcome    text,
    reason     text,
    purpose    text,
    next_check timestamptz
);

-- Email: the root, its facts.
create table comms.send_email_task (
    send_email_task_id bigint generated always as identity primary key,
    message_id         bigint not null unique references comms.email_message,
    scheduled_at       queues.moment not null,
    patience           interval not null,  -- how long after scheduled_at a failing attempt is still repeated
    max_attempts       integer not null constraint max_attempts_in_range check (max_attempts between 1 and 100),
    run_limit          integer not null,
    on_unknown         text constraint on_unknown_is_known check (on_unknown in ('park', 'resend')),
    queue_name         queues.queue_name not null,
    provider_key       comms.provider_key not null unique default gen_random_uuid()::text,
    idempotency_key    queues.key,
    retry_of           bigint references comms.send_email_task,
    created_by         text not null default session_user,
    created_at         timestamptz not null default clock_timestamp(),
    unique (created_by, idempotency_key)
);
create table comms.send_email_task_scheduled (
    attempt_id         bigint generated by default as identity primary key,
    send_email_task_id bigint not null references comms.send_email_task on delete cascade,
    attempt_no         integer not null check (attempt_no > 0),
    purpose            text not null default 'send' check (purpose in ('send', 'lookup')),
    task_run_id        bigint not null unique,
    created_at         timestamptz not null default clock_timestamp(),
    unique (send_email_task_id, attempt_no),
    unique (send_email_task_id, attempt_id)
);
create table comms.send_email_task_started (
    attempt_id         bigint primary key,
    send_email_task_id bigint not null,
    provider           text,
    resolves_by        text check (resolves_by in ('resend', 'lookup', 'park')),
    created_at         timestamptz not null default clock_timestamp(),
    foreign key (send_email_task_id, attempt_id)
        references comms.send_email_task_scheduled (send_email_task_id, attempt_id) on delete cascade
);
create table comms.send_email_task_succeeded (
    attempt_id          bigint primary key references comms.send_email_task_started on delete cascade,
    send_email_task_id  bigint not null unique references comms.send_email_task on delete cascade,
    provider            text,
    provider_message_id text check (length(provider_message_id) <= 998),
    created_at          timestamptz not null default clock_timestamp()
);
create table comms.send_email_task_failed (
    attempt_id         bigint primary key,
    send_email_task_id bigint not null,
    kind               text not null check (kind ~ '^[a-z_]+$' and length(kind) <= 60),
    permanent          boolean not null,
    retry_after        interval,
    created_at         timestamptz not null default clock_timestamp(),
    foreign key (send_email_task_id, attempt_id)
        references comms.send_email_task_scheduled (send_email_task_id, attempt_id) on delete cascade
);
create index on comms.send_email_task_failed (send_email_task_id);
create table comms.send_email_task_unknown (
    attempt_id         bigint primary key references comms.send_email_task_started on delete cascade,
    send_email_task_id bigint not null references comms.send_email_task on delete cascade,
    created_at         timestamptz not null default clock_timestamp()
);
create index on comms.send_email_task_unknown (send_email_task_id);
-- One row for each run of the supervisor that wrote another fact: the run limit counts these, never waiting.
create table comms.send_email_task_decided (
    decision_id        bigint generated always as identity primary key,
    send_email_task_id bigint not null references comms.send_email_task on delete cascade,
    decision           text not null,
    created_at         timestamptz not null default clock_timestamp()
);
create index on comms.send_email_task_decided (send_email_task_id);
create table comms.send_email_task_ended (
    send_email_task_id bigint primary key references comms.send_email_task on delete cascade,
    outcome            text not null check (outcome in ('succeeded', 'failed', 'unknown', 'run_limit', 'deadline', 'cancelled')),
    reason             text,
    created_at         timestamptz not null default clock_timestamp()
);
create index on comms.send_email_task_ended (created_at);
-- What a person found out about a process that ended as unknown.
create table comms.send_email_task_resolved (
    send_email_task_id bigint primary key references comms.send_email_task_ended on delete cascade,
    resolution         text not null check (resolution in ('sent', 'not_sent')),
    resolved_by        text not null default session_user,
    created_at         timestamptz not null default clock_timestamp()
);
-- The provider's own words about an attempt may hold addresses: they are no fact, and erase_message deletes them.
create table comms.send_email_task_note (
    attempt_id bigint primary key references comms.send_email_task_scheduled on delete cascade,
    note       text not null,
    created_at timestamptz not null default clock_timestamp()
);

create function comms.one_email_outcome() returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp as $$
begin
    perform from comms.send_email_task r where r.send_email_task_id = new.send_email_task_id for no key update;
    if exists (select from comms.send_email_task_succeeded s where s.attempt_id = new.attempt_id)
       or exists (select from comms.send_email_task_failed f where f.attempt_id = new.attempt_id) then
        raise exception using errcode = 'RQ004', message = format('attempt %s has an outcome already', new.attempt_id);
    end if;
    return new;
end $$;
create trigger one_outcome before insert on comms.send_email_task_succeeded
    for each row execute function comms.one_email_outcome();
create trigger one_outcome before insert on comms.send_email_task_failed
    for each row execute function comms.one_email_outcome();
create trigger facts_stay before update or delete or truncate on comms.send_email_task
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_email_task_scheduled
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_email_task_started
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_email_task_succeeded
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_email_task_failed
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_email_task_unknown
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_email_task_decided
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_email_task_ended
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_email_task_resolved
    for each statement execute function internal.facts_stay();

-- SMS: the same.
create table comms.send_sms_task (
    send_sms_task_id bigint generated always as identity primary key,
    message_id         bigint not null unique references comms.sms_message,
    scheduled_at       queues.moment not null,
    patience           interval not null,  -- how long after scheduled_at a failing attempt is still repeated
    max_attempts       integer not null constraint max_attempts_in_range check (max_attempts between 1 and 100),
    run_limit          integer not null,
    on_unknown         text constraint on_unknown_is_known check (on_unknown in ('park', 'resend')),
    queue_name         queues.queue_name not null,
    provider_key       comms.provider_key not null unique default gen_random_uuid()::text,
    idempotency_key    queues.key,
    retry_of           bigint references comms.send_sms_task,
    created_by         text not null default session_user,
    created_at         timestamptz not null default clock_timestamp(),
    unique (created_by, idempotency_key)
);
create table comms.send_sms_task_scheduled (
    attempt_id         bigint generated by default as identity primary key,
    send_sms_task_id bigint not null references comms.send_sms_task on delete cascade,
    attempt_no         integer not null check (attempt_no > 0),
    purpose            text not null default 'send' check (purpose in ('send', 'lookup')),
    task_run_id        bigint not null unique,
    created_at         timestamptz not null default clock_timestamp(),
    unique (send_sms_task_id, attempt_no),
    unique (send_sms_task_id, attempt_id)
);
create table comms.send_sms_task_started (
    attempt_id         bigint primary key,
    send_sms_task_id bigint not null,
    provider           text,
    resolves_by        text check (resolves_by in ('resend', 'lookup', 'park')),
    created_at         timestamptz not null default clock_timestamp(),
    foreign key (send_sms_task_id, attempt_id)
        references comms.send_sms_task_scheduled (send_sms_task_id, attempt_id) on delete cascade
);
create table comms.send_sms_task_succeeded (
    attempt_id          bigint primary key references comms.send_sms_task_started on delete cascade,
    send_sms_task_id  bigint not null unique references comms.send_sms_task on delete cascade,
    provider            text,
    provider_message_id text check (length(provider_message_id) <= 998),
    created_at          timestamptz not null default clock_timestamp()
);
create table comms.send_sms_task_failed (
    attempt_id         bigint primary key,
    send_sms_task_id bigint not null,
    kind               text not null check (kind ~ '^[a-z_]+$' and length(kind) <= 60),
    permanent          boolean not null,
    retry_after        interval,
    created_at         timestamptz not null default clock_timestamp(),
    foreign key (send_sms_task_id, attempt_id)
        references comms.send_sms_task_scheduled (send_sms_task_id, attempt_id) on delete cascade
);
create index on comms.send_sms_task_failed (send_sms_task_id);
create table comms.send_sms_task_unknown (
    attempt_id         bigint primary key references comms.send_sms_task_started on delete cascade,
    send_sms_task_id bigint not null references comms.send_sms_task on delete cascade,
    created_at         timestamptz not null default clock_timestamp()
);
create index on comms.send_sms_task_unknown (send_sms_task_id);
-- One row for each run of the supervisor that wrote another fact: the run limit counts these, never waiting.
create table comms.send_sms_task_decided (
    decision_id        bigint generated always as identity primary key,
    send_sms_task_id bigint not null references comms.send_sms_task on delete cascade,
    decision           text not null,
    created_at         timestamptz not null default clock_timestamp()
);
create index on comms.send_sms_task_decided (send_sms_task_id);
create table comms.send_sms_task_ended (
    send_sms_task_id bigint primary key references comms.send_sms_task on delete cascade,
    outcome            text not null check (outcome in ('succeeded', 'failed', 'unknown', 'run_limit', 'deadline', 'cancelled')),
    reason             text,
    created_at         timestamptz not null default clock_timestamp()
);
create index on comms.send_sms_task_ended (created_at);
-- What a person found out about a process that ended as unknown.
create table comms.send_sms_task_resolved (
    send_sms_task_id bigint primary key references comms.send_sms_task_ended on delete cascade,
    resolution         text not null check (resolution in ('sent', 'not_sent')),
    resolved_by        text not null default session_user,
    created_at         timestamptz not null default clock_timestamp()
);
-- The provider's own words about an attempt may hold addresses: they are no fact, and erase_message deletes them.
create table comms.send_sms_task_note (
    attempt_id bigint primary key references comms.send_sms_task_scheduled on delete cascade,
    note       text not null,
    created_at timestamptz not null default clock_timestamp()
);

create function comms.one_sms_outcome() returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp as $$
begin
    perform from comms.send_sms_task r where r.send_sms_task_id = new.send_sms_task_id for no key update;
    if exists (select from comms.send_sms_task_succeeded s where s.attempt_id = new.attempt_id)
       or exists (select from comms.send_sms_task_failed f where f.attempt_id = new.attempt_id) then
        raise exception using errcode = 'RQ004', message = format('attempt %s has an outcome already', new.attempt_id);
    end if;
    return new;
end $$;
create trigger one_outcome before insert on comms.send_sms_task_succeeded
    for each row execute function comms.one_sms_outcome();
create trigger one_outcome before insert on comms.send_sms_task_failed
    for each row execute function comms.one_sms_outcome();
create trigger facts_stay before update or delete or truncate on comms.send_sms_task
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_sms_task_scheduled
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_sms_task_started
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_sms_task_succeeded
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_sms_task_failed
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_sms_task_unknown
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_sms_task_decided
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_sms_task_ended
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on comms.send_sms_task_resolved
    for each statement execute function internal.facts_stay();
