-- The lanes that a claim leaves and, up to 200 in all, the latest of those that were exhausted, each with its start at its last
-- row, not before `since`: what comes into them later is found there, without a way over all the dead entries before it.
create or replace function internal.with_exhausted(
    left_over internal.lane[], before internal.lane[], rows internal.claimed[], since timestamptz) returns internal.lane[]
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    return left_over || array(
        select row(max(s.pool), s.queue_name, s.task_type, s.priority, greatest(max(s.run_after), since),
                   case when max(s.run_after) >= since then (array_agg(s.id order by s.run_after desc, s.id desc))[1] else 0 end,
                   null, null)::internal.lane
        from (
            select b.pool, b.queue_name, b.task_type, b.priority, b.run_after, b.id from unnest(internal.unbundled(before)) b
            union all
            select null, r.queue_name, r.task_type, r.priority, r.run_after, r.id from unnest(rows) r) s
        where (s.queue_name, s.task_type, s.priority) not in (
            select l.queue_name, l.task_type, l.priority from unnest(internal.unbundled(left_over)) l)
        group by s.queue_name, s.task_type, s.priority
        order by max(s.run_after) desc, max(s.id) desc limit greatest(0, 200 - cardinality(left_over)));
end $$;
