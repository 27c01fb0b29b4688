-- The keys of tasks that wait for a slot and fell due after a moment. Of 5,000 tasks at most: the rest is found by the walk.
create or replace function internal.keys_fallen_due(since timestamptz) returns setof text
    language plpgsql stable
    set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off set enable_bitmapscan = off as $$
begin
    return query
    select d.limit_key::text
    from (select t.limit_key, t.run_after from queues.task_runs t
          where t.run_after > since and t.run_after <= now() and t.limit_key is not null and t.limit_slot is null
            and t.status in ('PENDING', 'RETRYING') and t.deleted_at is null
          order by t.run_after limit 5000) d
    group by d.limit_key order by min(d.run_after);
end $$;
