-- Claims up to `wanted` rows from lanes of one queue and priority, exact in order; where rivals hold the heads, past them.
-- Types may come one task after the other or a thousand of one after a thousand of another: by how far apart the ids of
-- the heads are it is guessed how many rows of each to look at, and a wrong guess mends itself.
create or replace function internal.take_group(
    worker_id text, lease interval, candidates internal.lane[], wanted integer,
    inout room bigint, out rows internal.claimed[], out lanes internal.lane[])
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    got internal.claimed[];
    left_over internal.lane[];
    lane internal.lane;
    stuck integer := 0;
    few integer := least(cardinality(candidates), 32);
    depth integer := least(wanted + 7, 2 * abs((candidates[few]).id - (candidates[1]).id) / greatest(1, few - 1));
    deeper boolean;
begin
    rows := '{}';
    lanes := candidates;
    while cardinality(lanes) > 1 and cardinality(rows) < wanted and room > 0 and stuck < 3 loop
        select g.rows, g.lanes, g.room, g.depth, g.deeper into got, left_over, room, depth, deeper
        from internal.take_merged(worker_id, lease, lanes, wanted - cardinality(rows), depth, room) g;
        depth := case when deeper then least(depth * 8, wanted + 7) else depth / 8 end;
        stuck := case when cardinality(got) > 0 then 0 else stuck + 1 end;
        rows := rows || got;
        lanes := left_over;
    end loop;
    if cardinality(rows) >= wanted or room <= 0 then
        return;
    end if;
    left_over := '{}';
    foreach lane in array lanes loop
        if cardinality(rows) < wanted and room > 0 then
            select g.rows, left_over || g.lanes, g.room into got, left_over, room
            from internal.take_lane(worker_id, lease, lane, wanted - cardinality(rows), room) g;
            rows := rows || got;
        else
            left_over := left_over || lane;
        end if;
    end loop;
    lanes := left_over;
end $$;
