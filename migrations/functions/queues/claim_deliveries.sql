-- Hands out events for one sink, each to one dispatcher, until it answers or its lease is over. In the order in which they
-- are to be sent: a run of one subject is at most `run_length` events, beginning with the lowest that the sink hasn't got.
-- What is on its way elsewhere or waits for a retry holds up its own subject and nothing else. `after` is where the last
-- claim ended, so that subjects take turns.
--
-- The claim goes from subject to subject along the index (10 µs each) and waits for no lock. Whoever holds the lowest of a
-- subject may take those behind it; candidates are read before they are locked, and the first that couldn't be locked ends
-- the run: no gap can be overtaken.
create or replace function queues.claim_deliveries(
    sink text, lease interval, max_events integer, run_length integer default 20, max_bytes bigint default 8388608,
    after text default null)
    returns table (
        event_number bigint, claim_no bigint, attempt integer, left_s double precision, event_id uuid, source text, event_type text,
        subject text, in_order_of text, created_at text, data text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_variable
declare
    at_now timestamptz := clock_timestamp();
    place queues.sinks;
    taken bigint[] := '{}';
    room bigint;
    reserved integer := 0;
    start text := coalesce(after, '');
    at_subject text := start;
    wrapped boolean := start = '';
    head record;
begin
    perform internal.durable_commit();
    select s.* into place from queues.sinks s where s.sink_name = sink and s.enabled and s.resume_at <= at_now;
    if not found then
        return;
    end if;
    if place.failures >= 5 then  -- it was paused: one event to see whether it lives
        max_events := 1;
    end if;
    max_events := least(max_events, 1000);
    lease := greatest(least(lease, interval '10 minutes'), (2 * place.timeout_s + 1) * interval '1 second');

    -- Half of it is for those in no order, if there are any, so that neither kind starves the other.
    if exists (select from queues.outbox_delivery d where d.sink = place.sink_name and d.state = 'waiting'
               and d.subject is null and d.next_at <= at_now) then
        reserved := max_events / 2;
    end if;
    loop
        room := max_bytes - (select coalesce(sum(e.size), 0) from queues.outbox_event e where e.id = any (taken));
        exit when cardinality(taken) >= max_events - reserved or room <= 0;
        select d.subject, d.event_id, d.next_at into head
        from queues.outbox_delivery d
        where d.sink = place.sink_name and d.state = 'waiting' and d.subject > at_subject
        order by d.subject, d.event_id limit 1;
        if not found then
            exit when wrapped;
            wrapped := true;
            at_subject := '';
            continue;
        end if;
        exit when wrapped and start <> '' and head.subject > start;
        at_subject := head.subject;
        continue when head.next_at > at_now;
        taken := taken || internal.take_run(place, head.subject, head.event_id, least(run_length, max_events - reserved - cardinality(taken)),
                                            room, at_now);
    end loop;
    if room > 0 then
        taken := taken || internal.take_run(place, null, 0, max_events - cardinality(taken), room, at_now);
    end if;
    taken := internal.give_up_lost(place, taken, at_now);

    return query
    with claimed as (
        update queues.outbox_delivery d
        set claim_no = d.claim_no + 1, leased_until = at_now + lease, next_at = at_now + lease,
            first_at = coalesce(d.first_at, at_now)
        where d.sink = place.sink_name and d.event_id = any (taken)
        returning d.event_id, d.claim_no, d.attempts, d.subject
    )
    select c.event_id, c.claim_no, c.attempts + 1,
           extract(epoch from at_now + lease - clock_timestamp())::double precision, e.event_id, o.event_source,
           e.event_type::text, e.subject::text, c.subject::text,
           to_char(e.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), e.data::text
    from claimed c join queues.outbox_event e on e.id = c.event_id cross join queues.outbox_settings o
    order by array_position(taken, c.event_id);
end $$;
