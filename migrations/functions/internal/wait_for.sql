-- Edges from each of these parents to each of these children. One that is over already and did well is none; one that is
-- over and didn't, though it had to, ends its children at once.
create or replace function internal.wait_for(children bigint[], parents bigint[], policy text) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    found_ids bigint[];
    open_ids bigint[];
    bad_ids bigint[];
begin
    select array_agg(t.id), array_agg(t.id) filter (where not t.over), array_agg(t.id) filter (where t.over and not t.well)
    into found_ids, open_ids, bad_ids
    from (select t.id, t.leased_until is null and (t.completed_at is not null or t.deleted_at is not null) as over,
                 t.status = 'SUCCESSFUL' and t.deleted_at is null as well
          from queues.task_runs t where t.id = any (parents) and internal.may_touch(t.created_by)
          order by t.id for no key update) t;
    if coalesce(cardinality(found_ids), 0) < cardinality(parents) then
        raise exception using errcode = 'RQ003', message = format('no task %s of yours to wait for',
            (select min(p) from unnest(parents) p where p <> all (coalesce(found_ids, '{}')))),
            hint = 'Retention may have taken it: then it is over, and there is nothing to wait for.';
    end if;
    if policy = 'succeeded' then
        open_ids := open_ids || bad_ids;
    end if;
    if open_ids is null or cardinality(open_ids) = 0 then
        return;
    end if;
    update internal.flow f set parents = true where not f.parents;
    update queues.task_runs t set has_children = true, updated_at = clock_timestamp()
    where t.id = any (open_ids) and not t.has_children;
    insert into queues.task_dependency (parent_id, child_id, policy)
    select p, c, policy from unnest(open_ids) p cross join unnest(children) c;
    update queues.task_runs t set waiting_for = t.waiting_for + cardinality(open_ids), updated_at = clock_timestamp()
    where t.id = any (children);
    if policy = 'succeeded' and bad_ids is not null then
        insert into internal.parent_over (parent_id) select b from unnest(bad_ids) b on conflict do nothing;
        perform internal.tell_children();
    end if;
end $$;
