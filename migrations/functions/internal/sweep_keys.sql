-- Once a second, by whichever worker comes first: tasks with a key that have fallen due, whose bucket has filled, or whom
-- nobody admitted because two were at it.
create or replace function internal.sweep_keys() returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    parked text;
    seen text := '';
    until_ timestamptz := clock_timestamp() + interval '100 ms';
begin
    update internal.flow set swept_at = clock_timestamp()
    where only_row = (select f.only_row from internal.flow f
                      where f.keys and f.swept_at < clock_timestamp() - interval '1 second' for update skip locked);
    if not found then
        return;
    end if;
    loop  -- from key to key by the index
        select t.limit_key into parked from queues.task_runs t
        where t.limit_key > seen and t.limit_slot is null and t.status in ('PENDING', 'RETRYING') and t.deleted_at is null
        order by t.limit_key limit 1;
        exit when not found or clock_timestamp() > until_;
        perform internal.admit(parked);
        seen := parked;
    end loop;
end $$;
