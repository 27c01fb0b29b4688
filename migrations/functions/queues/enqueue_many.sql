-- Many tasks of one type in one statement. Answers their ids in the order of the payloads.
create or replace function queues.enqueue_many(
    task_type text, payloads jsonb[], scheduled_at timestamptz default now(), queue_name text default 'default',
    priority integer default 0, idempotency_keys text[] default null, max_attempts integer default null,
    unique_among text default null, timeout interval default null, after bigint[] default null,
    limit_key text default null, trace text default null,
    after_policy text default 'succeeded') returns bigint[]
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    ids bigint[];
    item record;
    attempts integer := coalesce(
        max_attempts, (select t.max_attempts from queues.task_types t where t.task_type = enqueue_many.task_type));
begin
    perform internal.check_enqueue(task_type, queue_name, scheduled_at, priority, max_attempts, unique_among, timeout, after,
                                   null, limit_key, trace);
    perform internal.check_after_policy(after_policy);
    perform internal.check_payloads(task_type, payloads, idempotency_keys);
    if idempotency_keys is not null or unique_among is not null then
        ids := array_fill(null::bigint, array[cardinality(payloads)]);
        for item in
            select u.payload, u.idempotency_key, u.n
            from unnest(payloads, idempotency_keys) with ordinality as u(payload, idempotency_key, n)
            order by u.idempotency_key, u.payload, u.n  -- callers with the same keys meet in the same order: no deadlock
        loop
            ids[item.n] := (internal.enqueue_row(task_type, item.payload, scheduled_at, queue_name, priority, item.idempotency_key,
                                                 max_attempts, unique_among, timeout, after, limit_key, false, trace,
                                                 checked => true, after_policy => after_policy)).id;
        end loop;
        return ids;
    end if;
    with added as (
        insert into queues.task_runs as t (
            task_type, queue_name, priority, run_after, payload_json, spec_hash, max_attempts, attempts_open, timeout_s, limit_key,
            waiting_for, trace)
        select task_type, queue_name, priority, scheduled_at, p.payload,
               queues.spec_hash(task_type, queue_name, p.payload), coalesce(attempts, 3), attempts is null, extract(epoch from timeout), limit_key,
               (limit_key is not null)::integer, trace
        from unnest(payloads) as p(payload)
        returning t.id)
    select array_agg(a.id) into ids from added a;
    if (select f.audits from internal.flow f) then
        perform internal.audit_created(queue_name, task_type, ids);
    end if;
    if after is not null or limit_key is not null then
        perform internal.hold_back(ids, after, after_policy, limit_key);
    end if;
    if scheduled_at <= now() and ids is not null then
        perform internal.wake_sleepers(queue_name, task_type);
    end if;
    return coalesce(ids, '{}');
end $$;
