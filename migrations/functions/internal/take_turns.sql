-- One claim over all lanes: queues by turns from the one after `last_queue`, in each the higher priority first, never more
-- for a pool than it has free, nor of a queue or type than its limit leaves (`caps`; null = none has one). Turns are of 25
-- rows at least; what they leave over is filled in a second round.
create or replace function internal.take_turns(
    worker_id text, lease interval, wanted integer, inout room bigint,
    inout lanes internal.lane[], inout free integer[], inout last_queue text, inout caps internal.cap[],
    out rows internal.claimed[])
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    share integer := greatest(25, ceil(wanted::numeric
        / greatest(1, (select count(distinct l.queue_name) from unnest(lanes) l)))::integer);
    turn record;
    got record;
    allowed integer;
    turn_queue text;
    turn_left integer;
    next_lanes internal.lane[];
    limited_types text[] := case when caps is not null then array(select c.name from unnest(caps) c where c.scope = 'type') end;
begin
    rows := '{}';
    loop
        next_lanes := '{}';
        turn_queue := null;
        for turn in
            select l.pool, l.queue_name, l.priority, l.limited_type, array_agg(l.lane) as lanes
            from (select x.*, x as lane, case when x.task_type = any (limited_types) then x.task_type end as limited_type
                  from unnest(lanes) x) l
            group by l.pool, l.queue_name, l.priority, l.limited_type
            order by l.queue_name <= coalesce(last_queue, ''), l.queue_name, l.priority desc, l.pool, min(l.run_after)
        loop
            if turn_queue is distinct from turn.queue_name then
                turn_queue := turn.queue_name;
                turn_left := share;
            end if;
            allowed := least(free[turn.pool], turn_left, wanted - cardinality(rows));
            if caps is not null then
                allowed := least(allowed, (
                    select min(c.left_over) from unnest(caps) c
                    where (c.scope, c.name) in (('queue', turn.queue_name), ('type', turn.limited_type))));
            end if;
            if coalesce(allowed, 0) <= 0 or room <= 0 then
                next_lanes := next_lanes || turn.lanes;
                continue;
            end if;
            if cardinality(turn.lanes) = 1 and (turn.lanes[1]).more is null then
                select * into got from internal.take_lane(worker_id, lease, turn.lanes[1], allowed, room);
            else
                select * into got from internal.take_group(worker_id, lease, turn.lanes, allowed, room);
            end if;
            rows := rows || got.rows;
            room := got.room;
            next_lanes := next_lanes || got.lanes;
            free[turn.pool] := free[turn.pool] - cardinality(got.rows);
            turn_left := turn_left - cardinality(got.rows);
            if caps is not null then
                caps := array(
                    select row(c.scope, c.name, c.left_over - case
                        when (c.scope, c.name) in (('queue', turn.queue_name), ('type', turn.limited_type)) then cardinality(got.rows)
                        else 0 end)::internal.cap
                    from unnest(caps) c);
            end if;
            if cardinality(got.rows) > 0 then
                last_queue := turn.queue_name;
            end if;
        end loop;
        lanes := next_lanes;
        exit when share >= wanted or cardinality(rows) >= wanted or room <= 0 or cardinality(lanes) = 0;
        share := wanted;
    end loop;
end $$;
