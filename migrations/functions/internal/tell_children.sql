-- Parents that are over, and all of their children at once: each child is updated once, locked in the order of ids. A child
-- whose last parent is over may run; one whose parent did not succeed, though it had to, is cancelled, and its own children
-- hear of that in the next round. One statement for all that aren't cancelled: ten thousand children end in one finish, which
-- must be over long before the lease. Tasks are found by `id = any` and joined by a hash (see queues.finish).
create or replace function internal.tell_children() returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off set enable_nestloop = off set enable_mergejoin = off as $$
#variable_conflict use_variable
declare
    parents bigint[];
    ids bigint[];
    overs integer[];
    culprits bigint[];
    child record;
    told integer := 0;
begin
    loop
        parents := array(select p.parent_id from internal.parent_over p order by p.parent_id limit 5000 for update skip locked);
        exit when cardinality(parents) = 0;
        with edges as (
            delete from queues.task_dependency d where d.parent_id = any (parents)
            returning d.parent_id, d.child_id, d.policy
        ), succeeded as materialized (
            select t.id from queues.task_runs t
            where t.id = any (parents) and t.status = 'SUCCESSFUL' and t.deleted_at is null
        ), news as materialized (
            select e.child_id, count(*)::integer as over,
                   min(e.parent_id) filter (where e.policy = 'succeeded' and s.id is null) as culprit
            from edges e left join succeeded s on s.id = e.parent_id
            group by e.child_id
        ), locked as materialized (
            select t.id from queues.task_runs t
            where t.id = any (array(select n.child_id from news n)) and t.status = 'PENDING' and t.deleted_at is null
            order by t.id for update
        )
        select coalesce(array_agg(n.child_id), '{}'), array_agg(n.over), array_agg(n.culprit) into ids, overs, culprits
        from news n join locked l on l.id = n.child_id;
        told := told + cardinality(ids);
        for child in
            with freed as (
                -- One with a key waits for a slot of it, whatever its parents do.
                update queues.task_runs t
                set waiting_for = greatest((t.limit_key is not null and t.limit_slot is null)::integer, t.waiting_for - n.over),
                    updated_at = clock_timestamp()
                from unnest(ids, overs, culprits) as n(id, over, culprit)
                where t.id = any (ids) and t.id = n.id and n.culprit is null
                returning t.queue_name, t.task_type, case when t.limit_slot is null then t.limit_key end as wanted_key,
                          t.waiting_for, t.run_after
            )
            select distinct case when f.wanted_key is null then f.queue_name end as queue_name,
                   case when f.wanted_key is null then f.task_type end as task_type, f.wanted_key
            from freed f where f.waiting_for = (f.wanted_key is not null)::integer and f.run_after <= now()
        loop
            if child.wanted_key is not null then
                perform internal.admit(child.wanted_key);
            else
                perform internal.wake_sleepers(child.queue_name, child.task_type);
            end if;
        end loop;
        for child in
            select n.id, n.culprit from unnest(ids, culprits) as n(id, culprit) where n.culprit is not null order by n.id
        loop
            perform internal.cancel_child(child.id, child.culprit);
        end loop;
        delete from internal.parent_over p where p.parent_id = any (parents);
    end loop;
    return told;
end $$;
