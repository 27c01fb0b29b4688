-- Delivers to a sink once more, or for the first time: what is parked, or, where any of the others is given, every event of
-- that range (or the one event) whose type the sink wants. Same ids as ever. Answers how many wait now that didn't.
create or replace function queues.replay_events(
    sink text, since timestamptz default null, until timestamptz default null, event uuid default null) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    parked_only boolean := since is null and until is null and event is null;
    prefixes text[];
    again bigint[];
begin
    select s.type_prefixes into prefixes from queues.sinks s where s.sink_name = sink;
    if not found then
        raise exception using errcode = 'RQ003', message = format('no sink is called %s', coalesce(quote_literal(left(sink, 60)), '(null)')),
            hint = 'See: reproq dispatch sinks list';
    end if;
    if parked_only then
        perform from queues.outbox_delivery d where d.sink = replay_events.sink and d.state = 'parked' order by d.event_id for update;
        again := array(select d.event_id from queues.outbox_delivery d where d.sink = replay_events.sink and d.state = 'parked');
    else
        again := array(
            select e.id from queues.outbox_event e
            where (event is null or e.event_id = event) and (since is null or e.created_at >= since)
              and (until is null or e.created_at < until) and internal.wants(prefixes, e.event_type)
            order by e.id);
    end if;
    with written as (
        insert into queues.outbox_delivery as d (event_id, sink, subject)
        select e.id, sink, case when e.ordered then e.subject end
        from unnest(again) a join queues.outbox_event e on e.id = a order by e.id
        on conflict on constraint outbox_delivery_pkey do update
        set state = 'waiting', attempts = 0, next_at = now(), first_at = null, ended_at = null, leased_until = null
        where d.state <> 'waiting'
        returning d.event_id
    )
    select array_agg(w.event_id) into again from written w;
    perform from queues.outbox_event e where e.id = any (again) order by e.id for no key update;
    update queues.outbox_event e set sinks_open = e.sinks_open + 1, published_at = null where e.id = any (again);
    return coalesce(cardinality(again), 0);
end $$;
