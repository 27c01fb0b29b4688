-- What became of what was claimed: an array of {"event_number", "claim_no", "result": delivered | failed | returned, "status",
-- "error", "retry_after_s"}. A `returned` one wasn't sent and counts nothing. Of an event that is named twice the first
-- outcome counts. Answers for each `done`, `parked` (given up), `already` (its claim, but told before), `lost` (somebody else
-- has claimed it since: nothing is changed).
-- Locks in one order: deliveries, events, the sink. Deliveries are found by `id = any` and joined by a hash, their state is
-- tested on the locked copy (see queues.finish).
create or replace function queues.finish_deliveries(sink text, outcomes jsonb)
    returns table (event_number bigint, claim_no bigint, answer text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_nestloop = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
    ours bigint[];
    delivered bigint[];
    failure record;
    failed integer := 0;
begin
    perform internal.durable_commit();
    if jsonb_typeof(outcomes) is distinct from 'array' then
        raise exception using errcode = 'RQ003', message = 'the outcomes of deliveries are an array of objects';
    end if;
    -- Whoever tells of one event twice would count it twice: what is delivered must not wait again.
    outcomes := (
        select coalesce(jsonb_agg(x.o order by x.n), '[]') from (
            select distinct on ((a.o ->> 'event_number')::bigint) a.o, a.n
            from jsonb_array_elements(outcomes) with ordinality as a(o, n)
            order by (a.o ->> 'event_number')::bigint, a.n) x);
    with outcome as materialized (
        select o.event_number, o.claim_no, o.result
        from jsonb_to_recordset(finish_deliveries.outcomes) as o(event_number bigint, claim_no bigint, result text)
    ), locked as materialized (
        select d.event_id, d.claim_no, d.state = 'waiting' and d.leased_until is not null as leased
        from queues.outbox_delivery d
        where d.event_id = any (array(select o.event_number from outcome o)) and d.sink = finish_deliveries.sink
        order by d.event_id for update
    )
    select array_agg(l.event_id), coalesce(array_agg(l.event_id) filter (where o.result = 'delivered'), '{}') into ours, delivered
    from locked l join outcome o on o.event_number = l.event_id and o.claim_no = l.claim_no
    where l.leased;
    update queues.outbox_delivery d
    set state = 'delivered', attempts = d.attempts + 1, first_at = coalesce(d.first_at, clock_timestamp()),
        ended_at = clock_timestamp(), leased_until = null, last_error = null, last_status = o.status
    from jsonb_to_recordset(finish_deliveries.outcomes) as o(event_number bigint, status integer)
    where d.sink = finish_deliveries.sink and d.event_id = o.event_number and d.event_id = any (delivered);
    perform internal.sink_is_done(delivered);
    for failure in
        select o.* from jsonb_to_recordset(finish_deliveries.outcomes)
            as o(event_number bigint, claim_no bigint, result text, status integer, error text, retry_after_s double precision)
        where o.result is distinct from 'delivered' and o.event_number = any (ours) order by o.event_number
    loop
        if failure.result = 'returned' then
            update queues.outbox_delivery d
            set leased_until = null, next_at = now(), first_at = case when d.attempts > 0 then d.first_at end
            where d.sink = finish_deliveries.sink and d.event_id = failure.event_number;
        else
            failed := failed + 1;
            perform internal.fail_delivery(finish_deliveries.sink, failure.event_number, failure.status, failure.error, failure.retry_after_s);
        end if;
    end loop;
    perform internal.note_sink(
        finish_deliveries.sink, cardinality(delivered), failed, (
        select jsonb_build_object('gone', bool_or(o.status = 410), 'rest_s', max(o.retry_after_s) filter (where o.status in (429, 503)))
        from jsonb_to_recordset(finish_deliveries.outcomes) as o(event_number bigint, result text, status integer, retry_after_s double precision)
        where o.result = 'failed' and o.event_number = any (ours)));
    return query
    with outcome as materialized (
        select o.event_number, o.claim_no
        from jsonb_to_recordset(finish_deliveries.outcomes) as o(event_number bigint, claim_no bigint)
    ), told as materialized (
        select d.event_id, d.claim_no, d.state from queues.outbox_delivery d
        where d.event_id = any (array(select o.event_number from outcome o)) and d.sink = finish_deliveries.sink
    )
    select o.event_number, o.claim_no,
           case when t.event_id is null then 'lost' when o.event_number = any (ours) is not true then 'already'
                when t.state = 'parked' then 'parked' else 'done' end
    from outcome o left join told t on t.event_id = o.event_number and t.claim_no = o.claim_no;
end $$;
