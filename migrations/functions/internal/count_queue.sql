-- How a queue stands, by the claim index: tasks that are due and those for later, each counted up to `most`, and since when
-- the oldest one is due. Steps from lane to lane, through 2,000 of them at most.
create or replace function internal.count_queue(
    queue_name text, most integer, out ready bigint, out later bigint, out oldest timestamptz)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_variable
declare
    lane record;
    counted bigint;
begin
    ready := 0;
    later := 0;
    for lane in select l.task_type, l.priority, l.run_after from internal.lanes_between(queue_name, '', '~') l limit 2000 loop
        if lane.run_after <= now() then
            oldest := least(oldest, lane.run_after);
            if ready < most then
                select count(*) into counted from (
                    select from queues.task_runs t
                    where t.queue_name = count_queue.queue_name and t.task_type = lane.task_type and t.priority = lane.priority
                      and t.run_after <= now() and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0
                      and t.deleted_at is null
                    limit most - ready) x;
                ready := ready + counted;
            end if;
        end if;
        if later < most then
            select count(*) into counted from (
                select from queues.task_runs t
                where t.queue_name = count_queue.queue_name and t.task_type = lane.task_type and t.priority = lane.priority
                  and t.run_after > now() and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0
                  and t.deleted_at is null
                limit most - later) x;
            later := later + counted;
        end if;
    end loop;
end $$;
