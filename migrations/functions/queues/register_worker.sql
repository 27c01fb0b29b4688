-- A worker says who it is and what its children reported of their types: {"type": {"timeout": s, "max_attempts": n, …}}.
create or replace function queues.register_worker(
    worker_id text, hostname text, pid integer, version text, queues text[], prefixes text[], pool_size integer,
    types jsonb, takes_unknown boolean default true) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    if length(worker_id) > 300 or length(hostname) > 300 or length(version) > 100 or cardinality(queues) > 1000
       or cardinality(prefixes) > 1000 or pg_column_size(types) > 4194304 then
        raise exception using errcode = 'RQ003', message = 'a worker says too much of itself',
            hint = 'Names of at most 300 characters, 1,000 queues and prefixes, 4 MiB of types.';
    end if;
    -- What people are shown of workers is what these say: one line of text each, that moves no cursor.
    if coalesce(concat(worker_id, hostname, version, array_to_string(queues || prefixes, '')) ~ '[[:cntrl:]]', false)
       or array_position(queues, null) is not null or array_position(prefixes, null) is not null
       or jsonb_typeof(types) <> 'object' then
        raise exception using errcode = 'RQ003', message = 'a worker says of itself what isn''t plain',
            hint = 'Names of one line, without control characters; types as an object.';
    end if;
    insert into queues.workers as w (id, hostname, pid, version, queues, prefixes, pool_size, task_types, takes_unknown)
    values (worker_id, hostname, pid, version, queues, prefixes, pool_size,
            array(select k from jsonb_object_keys(types) k order by k), takes_unknown)
    on conflict (id) do update
        set queues = excluded.queues, prefixes = excluded.prefixes, pool_size = excluded.pool_size,
            task_types = excluded.task_types, takes_unknown = excluded.takes_unknown, last_heartbeat = clock_timestamp();
    insert into queues.task_types as y (task_type, max_attempts, timeout_s, lease, backoff_base, backoff_cap, dead_letter_type)
    select t.key, (t.value ->> 'max_attempts')::integer, (t.value ->> 'timeout')::double precision,
           (t.value ->> 'lease')::double precision * interval '1 second',
           (t.value ->> 'backoff_base')::double precision * interval '1 second',
           (t.value ->> 'backoff_cap')::double precision * interval '1 second', t.value ->> 'dead_letter_type'
    from jsonb_each(types) t order by t.key
    on conflict (task_type) do update
        set max_attempts = excluded.max_attempts, timeout_s = excluded.timeout_s, lease = excluded.lease,
            backoff_base = excluded.backoff_base, backoff_cap = excluded.backoff_cap,
            dead_letter_type = excluded.dead_letter_type, updated_at = clock_timestamp()
        where (y.max_attempts, y.timeout_s, y.lease, y.backoff_base, y.backoff_cap, y.dead_letter_type)
            is distinct from (excluded.max_attempts, excluded.timeout_s, excluded.lease, excluded.backoff_base,
                              excluded.backoff_cap, excluded.dead_letter_type);
    update internal.flow f set routes = true
    where not f.routes and exists (select from jsonb_each(types) t where t.value ->> 'dead_letter_type' is not null);
end $$;
