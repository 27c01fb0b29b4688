-- The live row with the same spec; a waiting twin is moved forward to the earlier of the two times.
create or replace function internal.find_twin(hash text, unique_among text, scheduled_at timestamptz) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    twin bigint;
    earlier record;
begin
    if unique_among = 'active' then
        select t.id into twin from queues.task_runs t
        where t.spec_hash = hash and t.unique_among = 'active'
          and t.status in ('PENDING', 'RETRYING', 'RUNNING') and t.deleted_at is null;
        return twin;
    end if;
    select t.id into twin from queues.task_runs t
    where t.spec_hash = hash and t.unique_among = 'waiting'
      and t.status in ('PENDING', 'RETRYING') and t.deleted_at is null
    for update;
    update queues.task_runs t set run_after = scheduled_at, updated_at = clock_timestamp()
    where t.id = twin and t.run_after > scheduled_at
    returning t.queue_name, t.task_type into earlier;
    if found and scheduled_at <= now() then
        perform internal.wake_sleepers(earlier.queue_name, earlier.task_type);
    end if;
    return twin;
end $$;
