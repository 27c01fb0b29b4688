-- Takes claimed tasks out of the buckets of their queues and types.
create or replace function internal.spend(rows internal.claimed[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    update queues.limits l set tokens = internal.refill(l) - x.claimed, filled_at = clock_timestamp()
    from (select 'queue' as scope, r.queue_name as name, count(*) as claimed from unnest(rows) r group by r.queue_name
          union all
          select 'type', r.task_type, count(*) from unnest(rows) r group by r.task_type) x
    where l.scope = x.scope and l.name = x.name and l.rate is not null;
end $$;
