-- The lanes that this worker serves, that have a due row and aren't paused, each with its head: where claims start from now
-- on. Those in `known` stay as they are, so what has come in behind them isn't found: a look that skips what would take long.
create or replace function internal.look(queues text[], prefixes text[], pools jsonb, known internal.lane[]) returns internal.lane[]
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    lanes internal.lane[];
    paused_types text[] := array(select y.task_type::text from queues.task_types y where y.paused);
begin
    if exists (select from queues.queue_settings s where s.paused) then  -- nobody walks what is behind a pause
        queues := array(
            select q from internal.queues_with_work(queues, known) q
            where not exists (select from queues.queue_settings s where s.queue_name = q and s.paused));
    end if;
    select array_agg(
        row(internal.pool_of(l.task_type, pools), l.queue_name, l.task_type, l.priority, l.run_after, l.id, null, null)::internal.lane)
    into lanes
    from internal.lanes_of(queues, prefixes, known) l
    where l.run_after <= now() and l.task_type <> all (paused_types);
    return known || array(select l from unnest(lanes) l where l.pool > 0);
end $$;
