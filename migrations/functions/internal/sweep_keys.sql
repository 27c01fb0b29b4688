-- Once a second, by whichever worker comes first: tasks with a key that have fallen due since the last time; then, from where
-- the last walk ended, those whose bucket has filled, or whom nobody admitted because two were at it. A tenth of a second at
-- most, and every key has its turn: what waits without end at many keys keeps nobody behind it waiting.
create or replace function internal.sweep_keys() returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    was internal.flow;
    parked text;
    seen text;
    walked record;
    until_ timestamptz := clock_timestamp() + interval '100 ms';
begin
    select f.* into was from internal.flow f
    where f.keys and f.swept_at < clock_timestamp() - interval '1 second' for update skip locked;
    if not found then
        return;
    end if;
    perform internal.leave_paused_slots();
    for parked in select k from internal.keys_fallen_due(was.swept_at - interval '2 seconds') k loop
        exit when clock_timestamp() > until_ - interval '30 ms';  -- the walk must get on as well
        perform internal.admit(parked);
    end loop;
    seen := was.swept_to;
    loop
        select * into walked from internal.keys_behind(seen, 200);
        foreach parked in array walked.due loop
            perform internal.admit(parked);
            seen := parked;
            exit when clock_timestamp() > until_;
        end loop;
        if clock_timestamp() <= until_ or walked.due = '{}' or seen = walked.due[cardinality(walked.due)] then
            seen := walked.upto;  -- '' at the end: the next walk begins anew
        end if;
        exit when seen = '' or clock_timestamp() > until_;
    end loop;
    update internal.flow f set swept_at = clock_timestamp(), swept_to = seen;
end $$;
