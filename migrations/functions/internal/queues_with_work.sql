-- The queues among those asked for (null = all) that hold a claimable row: a loose scan of the claim index.
create or replace function internal.queues_with_work(queues text[]) returns setof text
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    name text;
begin
    if queues is not null then
        return query select distinct q from unnest(queues) q where q is not null;
        return;
    end if;
    select t.queue_name into name from queues.task_runs t
    where t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
    order by t.queue_name limit 1;
    while found loop
        return next name;
        select t.queue_name into name from queues.task_runs t
        where t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null and t.queue_name > name
        order by t.queue_name limit 1;
    end loop;
end $$;
