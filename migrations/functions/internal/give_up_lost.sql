-- A dispatcher that died says nothing about the event, so it isn't counted; but what has been claimed and never answered for
-- as long as a sink may fail is parked. Answers the others. All of them are locked.
create or replace function internal.give_up_lost(place queues.sinks, taken bigint[], at_now timestamptz) returns bigint[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    lost bigint[];
begin
    with given_up as (
        update queues.outbox_delivery d
        set state = 'parked', ended_at = at_now, leased_until = null, last_error = 'its dispatchers ended before an answer came'
        where d.sink = place.sink_name and d.event_id = any (taken) and d.leased_until is not null
          and d.first_at < at_now - place.max_age
        returning d.event_id
    )
    select array_agg(g.event_id) into lost from given_up g;
    if lost is null then
        return taken;
    end if;
    perform internal.sink_is_done(lost);
    return array(select t.id from unnest(taken) with ordinality as t(id, place) where t.id <> all (lost) order by t.place);
end $$;
