-- The lanes of one queue whose type lies in [low, high), without those that are known: each with its head. Steps over the
-- known ones by key, so over the dead entries that an old snapshot keeps at their heads too.
create or replace function internal.lanes_beside(queue_name text, low text, high text, known internal.lane[])
    returns setof internal.lane
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
declare
    since text := low;
    held record;
    priority integer;
    below integer;
    head internal.lane;
begin
    for held in
        select l.task_type, array_agg(l.priority order by l.priority desc) as priorities from unnest(known) l
        where l.queue_name = lanes_beside.queue_name and l.task_type collate "C" >= low and l.task_type collate "C" < high
        group by l.task_type order by l.task_type collate "C"
    loop
        return query select * from internal.lanes_between(queue_name, since, held.task_type);
        below := 2147483647;
        foreach priority in array held.priorities || -2147483648 loop
            loop
                select 0, t.queue_name, t.task_type, t.priority, t.run_after, t.id, null::real, null::text into head from queues.task_runs t
                where t.queue_name = lanes_beside.queue_name and t.task_type = held.task_type
                  and t.priority < below and t.priority > priority
                  and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
                order by t.priority desc, t.run_after, t.id limit 1;
                exit when not found;
                return next head;
                below := head.priority;
            end loop;
            below := priority;
        end loop;
        since := held.task_type || '!';  -- before all that a type may go on with
    end loop;
    return query select * from internal.lanes_between(queue_name, since, high);
end $$;
