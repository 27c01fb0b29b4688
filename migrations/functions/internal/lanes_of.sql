-- The lanes that a worker of these queues and prefixes (null = all) may serve, each with its head, due or not; those in `known`
-- are left out, and stepped over. Who serves everything gets them by one walk: to find the queues first and then the lanes of
-- each would read the dead entries before a queue's first row twice.
create or replace function internal.lanes_of(queues text[], prefixes text[], known internal.lane[]) returns setof internal.lane
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
begin
    if queues is not null or prefixes is not null or known <> '{}' then
        return query
        select l.* from internal.queues_with_work(queues, known) q cross join internal.prefix_ranges(prefixes) r
        cross join lateral internal.lanes_beside(q, r.low, r.high, known) l;
        return;
    end if;
    return query
    with recursive step as (
        (select t.queue_name::text, t.task_type::text, t.priority::integer, t.run_after::timestamptz, t.id from queues.task_runs t
         where t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
         order by t.queue_name, t.task_type, t.priority desc, t.run_after, t.id limit 1)
        union all
        select n.* from step s cross join lateral (
            (select t.queue_name::text, t.task_type::text, t.priority::integer, t.run_after::timestamptz, t.id from queues.task_runs t
             where t.queue_name = s.queue_name and t.task_type = s.task_type and t.priority < s.priority
               and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
             order by t.priority desc, t.run_after, t.id limit 1)
            union all
            (select t.queue_name::text, t.task_type::text, t.priority::integer, t.run_after::timestamptz, t.id from queues.task_runs t
             where t.queue_name = s.queue_name and t.task_type > s.task_type
               and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
             order by t.task_type, t.priority desc, t.run_after, t.id limit 1)
            union all
            (select t.queue_name::text, t.task_type::text, t.priority::integer, t.run_after::timestamptz, t.id from queues.task_runs t
             where t.queue_name > s.queue_name
               and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
             order by t.queue_name, t.task_type, t.priority desc, t.run_after, t.id limit 1)
            limit 1) n
    )
    select 0, s.queue_name, s.task_type, s.priority, s.run_after, s.id, null::real, null::text from step s;
end $$;
