-- Locks, of one subject (null: those in no order), what may be sent now from `first` on, and answers it in order.
create or replace function internal.take_run(
    place queues.sinks, of_subject text, first bigint, how_many integer, room bigint, at_now timestamptz) returns bigint[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    candidates bigint[];
    locked bigint[];
    sizes integer[];
    fits bigint[] := '{}';
begin
    if of_subject is null then
        candidates := array(
            select d.event_id from queues.outbox_delivery d
            where d.sink = place.sink_name and d.state = 'waiting' and d.subject is null and d.next_at <= at_now
            order by d.event_id limit how_many for update skip locked);
    else
        candidates := array(
            select d.event_id from queues.outbox_delivery d
            where d.sink = place.sink_name and d.state = 'waiting' and d.subject = of_subject and d.event_id >= first
            order by d.event_id limit how_many);
    end if;
    select array_agg(x.event_id), array_agg(x.size) into locked, sizes
    from (
        select d.event_id, e.size
        from queues.outbox_delivery d join queues.outbox_event e on e.id = d.event_id
        where d.event_id = any (candidates) and d.sink = place.sink_name and d.state = 'waiting' and d.next_at <= at_now
        order by d.event_id for update of d skip locked) x;
    for i in 1 .. coalesce(cardinality(candidates), 0) loop
        exit when locked[i] is distinct from candidates[i] or (room < sizes[i] and fits <> '{}');
        fits := fits || candidates[i];
        room := room - sizes[i];
    end loop;
    return fits;
end $$;
