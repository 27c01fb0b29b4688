-- Every open process whose supervisor no longer waits gets it back. A supervisor that runs at this moment enqueues itself
-- into the same one row. Answers how many were resumed, at most 1,000 at a time.
create or replace function comms.resume_supervisors() returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    lost record;
    resumed bigint := 0;
begin
    for lost in
        select p.payload, p.queue_name::text as queue_name
        from internal.open_process p
        where not exists (
            select from queues.task_runs t
            where t.spec_hash = p.spec_hash and t.unique_among = 'waiting' and t.status in ('PENDING', 'RETRYING')
              and t.deleted_at is null)
        order by p.opened_at limit 1000
    loop
        perform queues.enqueue_system('db_function', lost.payload, now(), lost.queue_name, supervised => true,
                                      unique_among => 'waiting', max_attempts => 1000);
        resumed := resumed + 1;
    end loop;
    return resumed;
end $$;
