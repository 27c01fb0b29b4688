-- The lanes that this worker serves and that have a due row, each with its head: where claims start from now on.
create or replace function internal.look(queues text[], prefixes text[], pools jsonb) returns internal.lane[]
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    lanes internal.lane[];
begin
    select array_agg(row(internal.pool_of(l.task_type, pools), l.queue_name, l.task_type, l.priority, l.run_after, l.id)::internal.lane)
    into lanes
    from internal.queues_with_work(queues) q
    cross join internal.prefix_ranges(prefixes) r
    cross join lateral internal.lanes_between(q, r.low, r.high) l
    where l.run_after <= now();
    return coalesce(array(select l from unnest(lanes) l where l.pool > 0), '{}');
end $$;
