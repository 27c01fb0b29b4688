-- Admits due tasks of a key to its free slots, in the order of a claim, past those of paused queues and types. One at a time
-- works on a key, and on the bucket of a rate; who finds another at it leaves it to the sweep (internal.sweep_keys), a second
-- later at most: waiting here could be a deadlock, and would keep a finish from ending.
create or replace function internal.admit(limit_key text) returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    bound queues.limits;
    bucket queues.limits;
    spare double precision;
    slot integer;
    task record;
    admitted integer := 0;
    paused_queues text[];
    paused_types text[];
begin
    if not internal.lock_key(limit_key) then
        return 0;
    end if;
    bound := internal.key_limit(limit_key);
    if bound.rate is not null then
        select l.* into bucket from queues.limits l where l.scope = 'key' and l.name = bound.name for update skip locked;
        if not found then
            return 0;
        end if;
        spare := internal.refill(bucket);
    end if;
    paused_queues := array(select s.queue_name::text from queues.queue_settings s where s.paused);
    paused_types := array(select y.task_type::text from queues.task_types y where y.paused);
    for slot in
        select n from generate_series(1, coalesce(bound.concurrency, 100 + (
            select count(*)::integer from queues.task_runs t where t.limit_key = admit.limit_key and t.limit_slot is not null))) n
        where n <> all (array(select t.limit_slot from queues.task_runs t
                              where t.limit_key = admit.limit_key and t.limit_slot is not null))
    loop
        exit when spare < 1;
        select t.id, t.queue_name, t.task_type into task from queues.task_runs t
        where t.limit_key = admit.limit_key and t.limit_slot is null and t.status in ('PENDING', 'RETRYING')
          and t.deleted_at is null and t.waiting_for = 1 and t.run_after <= now()
          and t.queue_name <> all (paused_queues) and t.task_type <> all (paused_types)
        order by t.priority desc, t.run_after, t.id limit 1 for update skip locked;
        exit when not found;
        update queues.task_runs t set limit_slot = slot, waiting_for = 0, updated_at = clock_timestamp() where t.id = task.id;
        perform internal.wake_sleepers(task.queue_name, task.task_type);
        admitted := admitted + 1;
        spare := spare - 1;
    end loop;
    if bound.rate is not null then
        update queues.limits l set tokens = spare, filled_at = clock_timestamp()
        where l.scope = 'key' and l.name = bound.name;
    end if;
    return admitted;
end $$;
