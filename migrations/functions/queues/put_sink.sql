-- Adds a sink, or changes one: what is null keeps its value, or gets the default. A prefix of '' means every type. Answers
-- `added` or `changed`. Its secret isn't the database's: the dispatcher has it (docs/events.md).
create or replace function queues.put_sink(
    name text, url text default null, mode text default null, type_prefixes text[] default null, signed boolean default null,
    allow_private boolean default null, max_attempts integer default null, max_age interval default null,
    timeout interval default null, batch_size integer default null, backoff_base interval default null,
    backoff_cap interval default null) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    was queues.sinks;
    fault text;
begin
    if name is null or name !~ '^[a-z][a-z0-9_]*$' or length(name) > 50 or name ~ '_file$' then
        raise exception using errcode = 'RQ003', message = 'bad name of a sink',
            hint = 'Up to 50 lower-case letters, digits and "_", a letter first, not ending in "_file": its secret''s variable is named after it.';
    end if;
    select s.* into was from queues.sinks s where s.sink_name = name for update;
    url := coalesce(url, was.url);
    mode := coalesce(mode, was.mode, 'structured');
    type_prefixes := nullif(coalesce(type_prefixes, was.type_prefixes), '{}');
    type_prefixes := case when '' = any (type_prefixes) then null else type_prefixes end;
    allow_private := coalesce(allow_private, was.allow_private, false);
    max_attempts := coalesce(max_attempts, was.max_attempts, 20);
    max_age := coalesce(max_age, was.max_age, interval '3 days');
    timeout := coalesce(timeout, was.timeout_s * interval '1 second', interval '10 seconds');
    batch_size := coalesce(batch_size, was.batch_size, 100);
    backoff_base := coalesce(backoff_base, was.backoff_base, interval '1 second');
    backoff_cap := coalesce(backoff_cap, was.backoff_cap, interval '6 hours');
    fault := internal.sink_fault(url, mode, type_prefixes, allow_private, max_attempts, max_age, timeout, batch_size, backoff_base, backoff_cap);
    if fault is not null then
        raise exception using errcode = 'RQ003', message = format('sink %s: %s', name, fault);
    end if;
    insert into queues.sinks as s (sink_name, url, mode, type_prefixes, signed, allow_private, max_attempts, max_age, timeout_s,
                                   batch_size, backoff_base, backoff_cap)
    values (name, url, mode, type_prefixes, coalesce(signed, was.signed, true), allow_private, max_attempts, max_age,
            extract(epoch from timeout), batch_size, backoff_base, backoff_cap)
    on conflict on constraint sinks_pkey do update
    set url = excluded.url, mode = excluded.mode, type_prefixes = excluded.type_prefixes, signed = excluded.signed,
        allow_private = excluded.allow_private, max_attempts = excluded.max_attempts, max_age = excluded.max_age,
        timeout_s = excluded.timeout_s, batch_size = excluded.batch_size, backoff_base = excluded.backoff_base,
        backoff_cap = excluded.backoff_cap, failures = 0, resume_at = 'epoch', updated_at = now();
    return case when was.sink_name is null then 'added' else 'changed' end;
end $$;
