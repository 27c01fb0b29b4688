-- The queues among those asked for (null = all) that hold a claimable row or a known lane: a loose scan of the claim index.
create or replace function internal.queues_with_work(queues text[], known internal.lane[] default '{}') returns setof text
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    since text := '';
    held text;
    name text;
begin
    if queues is not null then
        return query select distinct q from unnest(queues) q where q is not null;
        return;
    end if;
    for held in select distinct l.queue_name collate "C" from unnest(known) l union all select '~' order by 1 loop
        loop
            select t.queue_name into name from queues.task_runs t
            where t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
              and t.queue_name > since and t.queue_name < held
            order by t.queue_name limit 1;
            exit when not found;
            return next name;
            since := name;
        end loop;
        if held <> '~' then
            return next held;
        end if;
        since := held;
    end loop;
end $$;
