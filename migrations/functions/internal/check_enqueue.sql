-- The arguments that every way of enqueuing shares. One clear error each, before anything is written.
create or replace function internal.check_enqueue(
    task_type text, queue_name text, scheduled_at timestamptz, priority integer, max_attempts integer,
    unique_among text, timeout interval, after bigint[], idempotency_key text, limit_key text, trace text) returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    if task_type is null or task_type !~ '^[A-Za-z0-9][A-Za-z0-9_.:-]*$' or octet_length(task_type) > 200 then
        raise exception using errcode = 'RQ001',
            message = format('bad task type %s', coalesce(quote_literal(regexp_replace(left(task_type, 60), '[[:cntrl:]]', '?', 'g')), '(null)')),
            hint = 'A type is 1 to 200 letters, digits, "_", ".", ":", "-", and starts with a letter or digit.';
    end if;
    if queue_name is null or queue_name !~ '^[A-Za-z0-9][A-Za-z0-9_.:-]*$' or octet_length(queue_name) > 100 then
        raise exception using errcode = 'RQ001',
            message = format('bad queue name %s', coalesce(quote_literal(regexp_replace(left(queue_name, 60), '[[:cntrl:]]', '?', 'g')), '(null)')),
            hint = 'A queue name is 1 to 100 letters, digits, "_", ".", ":", "-", and starts with a letter or digit.';
    end if;
    if priority is null or priority not between -1000000 and 1000000 then
        raise exception using errcode = 'RQ003', message = format('priority %s is out of range', coalesce(priority::text, '(null)')),
            hint = 'Priority lies within -1000000 and 1000000; higher runs first.';
    end if;
    if max_attempts not between 1 and 100000 then
        raise exception using errcode = 'RQ003', message = format('max_attempts %s is out of range', max_attempts),
            hint = 'It lies within 1 and 100000; leave it out for the default of the type.';
    end if;
    if scheduled_at is null or scheduled_at < timestamptz '1970-01-01 00:00:00+00'
       or scheduled_at >= timestamptz '9000-01-01 00:00:00+00' then
        raise exception using errcode = 'RQ003', message = format('scheduled_at %s is out of range', coalesce(scheduled_at::text, '(null)')),
            hint = 'It lies within the years 1970 and 8999.';
    end if;
    if unique_among not in ('active', 'waiting') then
        raise exception using errcode = 'RQ003', message = format('unique_among %s is unknown', quote_literal(left(unique_among, 60))),
            hint = 'It is ''active'' (pending, retrying or running) or ''waiting'' (pending or retrying).';
    end if;
    if extract(epoch from timeout) <= 0 or extract(epoch from timeout) > 366 * 86400 then
        raise exception using errcode = 'RQ003', message = format('timeout %s is out of range', timeout),
            hint = 'It is longer than nothing and at most 366 days.';
    end if;
    if length(idempotency_key) not between 1 and 500 or length(limit_key) not between 1 and 500 then
        raise exception using errcode = 'RQ003',
            message = format('%s has %s characters', case when length(limit_key) not between 1 and 500 then 'limit_key' else 'idempotency_key' end,
                             case when length(limit_key) not between 1 and 500 then length(limit_key) else length(idempotency_key) end),
            hint = 'A key has 1 to 500; leave it out for none.';
    end if;
    if length(trace) > 1000 then
        raise exception using errcode = 'RQ003', message = format('trace has %s characters', length(trace)),
            hint = 'It has at most 1000: a trace context, not a document.';
    end if;
    if cardinality(after) > 100000 or array_position(after, null) is not null then
        raise exception using errcode = 'RQ003', message = 'after names at most 100000 tasks, by their ids',
            hint = 'Let a task of its own wait for each part of them.';
    end if;
end $$;
