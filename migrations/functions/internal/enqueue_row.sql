-- The one INSERT of a single task. Answers the id, whether the row is new, and whether an older row has the same spec.
-- `checked` = its arguments have been seen already; `names_freely` = its payload may name any function.
-- Every expression of a function costs a microsecond per transaction. So one lets through what nothing can be wrong with,
-- and the limits that may have been changed (queues.settings) are read by the INSERT itself.
create or replace function internal.enqueue_row(
    task_type text, payload jsonb, scheduled_at timestamptz, queue_name text, priority integer, idempotency_key text,
    max_attempts integer, unique_among text, timeout interval, after bigint[], limit_key text, supervised boolean, trace text,
    checked boolean default false, names_freely boolean default false, after_policy text default 'succeeded',
    out id bigint, out is_new boolean, out same_spec boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
declare
    hash text;
    found_hash text;
    fits boolean := checked;
    audits boolean;
begin
    if not (checked or coalesce(
            task_type ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]*$' and octet_length(task_type) <= 200 and task_type not in ('db_function', 'email', 'sms')
            and queue_name ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]*$' and octet_length(queue_name) <= 100 and priority between -1000000 and 1000000
            and scheduled_at >= timestamptz '1970-01-01 00:00:00+00' and scheduled_at < timestamptz '9000-01-01 00:00:00+00'
            and max_attempts is null and unique_among is null and timeout is null and after is null and after_policy = 'succeeded'
            and limit_key is null
            and trace is null and coalesce(length(idempotency_key), 1) between 1 and 500 and jsonb_typeof(payload) = 'object'
            and octet_length(payload::text) <= 128 and payload::text not like '%!_handler"%' escape '!', false)) then
        perform internal.check_enqueue(task_type, queue_name, scheduled_at, priority, max_attempts, unique_among, timeout, after,
                                       idempotency_key, limit_key, trace);
        perform internal.check_after_policy(after_policy);
        perform internal.check_payload(payload);
        if not names_freely then
            perform internal.check_named_functions(task_type, payload);
        end if;
        fits := true;
    end if;
    hash := queues.spec_hash(task_type, queue_name, payload);
    for i in 1 .. 100 loop
        insert into queues.task_runs as t (
            task_type, queue_name, priority, run_after, payload_json, spec_hash, idempotency_key, max_attempts, attempts_open,
            unique_among, timeout_s, limit_key, waiting_for, supervised, trace)
        select task_type, queue_name, priority, scheduled_at, payload, hash, idempotency_key,
               coalesce(max_attempts, y.max_attempts, 3), coalesce(max_attempts, y.max_attempts) is null, unique_among,
               extract(epoch from timeout), limit_key, (limit_key is not null)::integer, supervised, trace
        from queues.settings s left join queues.task_types y on y.task_type = enqueue_row.task_type
        where fits or octet_length(payload::text) <= least(s.max_payload_bytes, 2 * s.max_depth, s.max_digits)
        on conflict do nothing
        returning t.id, (select f.audits from internal.flow f) into enqueue_row.id, audits;
        if found then
            if audits then
                perform internal.audit_created(queue_name, task_type, array[enqueue_row.id]);
            end if;
            is_new := true;
            same_spec := true;
            exit;
        end if;
        if not fits then
            perform internal.check_payload(payload);
            fits := true;
            continue;
        end if;
        -- Somebody else's row is in the way. It may vanish before we look (deleted, claimed): then try again.
        select t.id, t.spec_hash into enqueue_row.id, found_hash
        from queues.task_runs t
        where t.task_type = enqueue_row.task_type and t.idempotency_key = enqueue_row.idempotency_key
          and t.deleted_at is null;
        if not found and unique_among is not null then
            enqueue_row.id := internal.find_twin(hash, unique_among, scheduled_at);
            found_hash := hash;
        end if;
        if enqueue_row.id is not null then
            is_new := false;
            same_spec := found_hash = hash;
            return;
        end if;
    end loop;
    if enqueue_row.id is null then
        raise exception using errcode = 'RQ006', message = 'the row that holds this key keeps changing; nothing was enqueued',
            hint = 'Enqueue again.';
    end if;
    if after is not null or limit_key is not null then
        perform internal.hold_back(array[enqueue_row.id], after, after_policy, limit_key);
    end if;
    if scheduled_at <= now() then
        perform internal.wake_sleepers(queue_name, task_type);
    end if;
end $$;
