-- Parents that are over, and all of their children at once: each child is updated once, in the order of ids. A child whose
-- last parent is over may run; one whose parent did not succeed, though it had to, is cancelled, and its own children hear
-- of that in the next round.
create or replace function internal.tell_children() returns integer
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    parents bigint[];
    child record;
    told integer := 0;
    must_wait integer;
begin
    loop
        parents := array(select p.parent_id from internal.parent_over p order by p.parent_id limit 5000 for update skip locked);
        exit when cardinality(parents) = 0;
        for child in
            with edges as (
                delete from queues.task_dependency d where d.parent_id = any (parents)
                returning d.parent_id, d.child_id, d.policy
            ), news as (
                select e.child_id, count(*)::integer as over,
                       min(e.parent_id) filter (where e.policy = 'succeeded' and (t.status is distinct from 'SUCCESSFUL'
                                                                                    or t.deleted_at is not null)) as culprit
                from edges e left join queues.task_runs t on t.id = e.parent_id
                group by e.child_id
            )
            select n.over, n.culprit, t.id, t.queue_name, t.task_type, t.waiting_for, t.limit_key, t.limit_slot, t.run_after, t.claim_no, t.attempt_count
            from news n join queues.task_runs t on t.id = n.child_id
            where t.status = 'PENDING' and t.deleted_at is null
            order by t.id for update of t
        loop
            told := told + 1;
            -- For a slot of its key, whatever its parents do: one that was replayed meanwhile doesn't count them any more.
            must_wait := (child.limit_key is not null and child.limit_slot is null)::integer;
            if child.culprit is not null then
                perform internal.cancel_child(child.id, child.culprit);
            else
                update queues.task_runs t
                set waiting_for = greatest(must_wait, t.waiting_for - child.over), updated_at = clock_timestamp() where t.id = child.id;
                if must_wait > 0 then
                    perform internal.admit(child.limit_key);
                elsif child.waiting_for <= child.over and child.run_after <= now() then
                    perform internal.wake_sleepers(child.queue_name, child.task_type);
                end if;
            end if;
        end loop;
        delete from internal.parent_over p where p.parent_id = any (parents);
    end loop;
    return told;
end $$;
