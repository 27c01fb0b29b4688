-- Claims up to `wanted` rows from lanes of one queue and priority, exact in order, or to half a second where they are so many
-- that a part of them is bundled (see arrange); past what rivals hold. Where that is all that was seen the answer is short: to
-- take what is left lane by lane instead, one type to its end, would let tasks of others wait that are due a minute before.
-- Types may come one task after the other or a thousand of one after a thousand of another: by how far the ids of heads are
-- from their neighbours' it is guessed how many rows of a lane to look at that no claim has taken any of.
create or replace function internal.take_group(
    worker_id text, lease interval, candidates internal.lane[], wanted integer,
    inout room bigint, out rows internal.claimed[], out lanes internal.lane[])
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    got internal.claimed[];
    stuck integer := 0;
    guess integer;
    slack interval;
begin
    rows := '{}';
    lanes := candidates;
    while (cardinality(lanes) > 1 or (lanes[1]).more is not null) and cardinality(rows) < wanted and room > 0 and stuck < 8 loop
        lanes := internal.arrange(lanes);
        slack := interval '0.5 s' * (select count(*) from unnest(lanes) l where l.more is not null);
        if guess is null then  -- the mean of the gaps would be stretched by lanes of which claims have taken more than of others
            select greatest(least(wanted + 7, 2 * coalesce(percentile_disc(0.5) within group (order by g.gap), 0)),
                            2 + ceil(2.0 * wanted / cardinality(lanes)), case when slack > '0' then 32 end)
            into guess
            from (select l.id - lag(l.id) over (order by l.id) as gap from unnest(lanes[1:32]) l) g;
        end if;
        select g.rows, g.lanes, g.room into got, lanes, room
        from internal.take_merged(worker_id, lease, lanes, wanted - cardinality(rows),
                                  case when stuck = 0 then least(guess, wanted - cardinality(rows) + 7) else guess end, slack, room) g;
        stuck := case when cardinality(got) > 0 then 0 else stuck + 1 end;
        if stuck > 0 then  -- rivals hold all that was seen: what they left is deeper in few lanes, or in others of many
            guess := case when slack > '0' then 4 else 2 ^ (stuck + 1) end;
        end if;
        rows := rows || got;
    end loop;
    if cardinality(rows) < wanted and room > 0 and cardinality(lanes) = 1 and (lanes[1]).more is null then
        select rows || g.rows, g.lanes, g.room into rows, lanes, room
        from internal.take_lane(worker_id, lease, lanes[1], wanted - cardinality(rows), room) g;
    end if;
end $$;
