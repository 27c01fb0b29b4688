-- The one INSERT of a single task. Answers the id, whether the row is new, and whether an older row has the same spec.
create or replace function internal.enqueue_row(
    task_type text, payload jsonb, scheduled_at timestamptz, queue_name text, priority integer, idempotency_key text,
    max_attempts integer, unique_among text, timeout interval, limit_key text, supervised boolean, trace text,
    out id bigint, out is_new boolean, out same_spec boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    hash text := queues.spec_hash(task_type, queue_name, payload);
    attempts integer := coalesce(
        max_attempts, (select t.max_attempts from queues.task_types t where t.task_type = enqueue_row.task_type));
    found_hash text;
begin
    for i in 1 .. 100 loop
        insert into queues.task_runs as t (
            task_type, queue_name, priority, run_after, payload_json, spec_hash, idempotency_key, max_attempts, attempts_open,
            unique_among, timeout_s, limit_key, supervised, trace)
        values (task_type, queue_name, priority, scheduled_at, payload, hash, idempotency_key, coalesce(attempts, 3), attempts is null,
                unique_among, extract(epoch from timeout), limit_key, supervised, trace)
        on conflict do nothing
        returning t.id into enqueue_row.id;
        if found then
            is_new := true;
            same_spec := true;
            exit;
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
    if scheduled_at <= now() then
        perform internal.wake_sleepers(queue_name, task_type);
    end if;
end $$;
