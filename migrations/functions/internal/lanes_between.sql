-- The lanes (type, priority) of one queue whose type lies in [low, high): the head of each, due or not. Steps from lane to
-- lane by index, so its cost is the number of lanes, not of tasks. One statement: each of a thousand would have to be begun.
create or replace function internal.lanes_between(queue_name text, low text, high text) returns setof internal.lane
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
begin
    return query
    with recursive step as (
        (select t.queue_name::text, t.task_type::text, t.priority::integer, t.run_after::timestamptz, t.id from queues.task_runs t
         where t.queue_name = lanes_between.queue_name and t.task_type >= low and t.task_type < high
           and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
         order by t.task_type, t.priority desc, t.run_after, t.id limit 1)
        union all
        select n.* from step s cross join lateral (
            (select t.queue_name::text, t.task_type::text, t.priority::integer, t.run_after::timestamptz, t.id from queues.task_runs t
             where t.queue_name = lanes_between.queue_name and t.task_type = s.task_type and t.priority < s.priority
               and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
             order by t.priority desc, t.run_after, t.id limit 1)
            union all
            (select t.queue_name::text, t.task_type::text, t.priority::integer, t.run_after::timestamptz, t.id from queues.task_runs t
             where t.queue_name = lanes_between.queue_name and t.task_type > s.task_type and t.task_type < high
               and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
             order by t.task_type, t.priority desc, t.run_after, t.id limit 1)
            limit 1) n
    )
    select 0, s.queue_name, s.task_type, s.priority, s.run_after, s.id, null::real, null::text from step s;
end $$;
