-- The next keys, in their order, of tasks that wait for a slot: those with a due one, and the last one looked at ('' = there
-- are no more). From key to key by the index.
create or replace function internal.keys_behind(seen text, most integer, out due text[], out upto text)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_variable
declare
    keys text[];
begin
    with recursive walk as (
        select seen as k, 0 as n
        union all
        select (select t.limit_key::text from queues.task_runs t
                where t.limit_key > w.k and t.limit_slot is null and t.status in ('PENDING', 'RETRYING') and t.deleted_at is null
                order by t.limit_key limit 1), w.n + 1
        from walk w where w.k is not null and w.n < most
    )
    select coalesce(array_agg(w.k order by w.n), '{}') into keys from walk w where w.n > 0 and w.k is not null;
    due := array(
        select k from unnest(keys) with ordinality as x(k, n)
        where exists (
            select from queues.task_runs t
            where t.limit_key = x.k and t.limit_slot is null and t.status in ('PENDING', 'RETRYING') and t.deleted_at is null
              and t.waiting_for = 1 and t.run_after <= now())
        order by x.n);
    upto := case when cardinality(keys) = most then keys[most] else '' end;
end $$;
