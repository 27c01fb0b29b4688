-- The one INSERT of an event, with a delivery for each sink that wants it now: a sink that is added later gets later events
-- only (queues.replay_events gives it the others). The lock on the subject comes before the id, so that ids are in the order
-- of commits: it is held until the transaction has become visible.
create or replace function internal.add_outbox_event(event_type text, subject text, data jsonb, ordered boolean) returns uuid
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    number bigint;
    public_id uuid;
    wanted text[] := array(
        select s.sink_name from queues.sinks s where internal.wants(s.type_prefixes, event_type) order by s.sink_name);
begin
    if ordered then
        perform pg_advisory_xact_lock(hashtextextended(subject, 7239141));
    end if;
    insert into queues.outbox_event as e (event_type, subject, ordered, data, size, sinks_open, published_at)
    values (event_type, subject, ordered, data, coalesce(octet_length(data::text), 0), cardinality(wanted),
            case when cardinality(wanted) = 0 then clock_timestamp() end)
    returning e.id, e.event_id into number, public_id;
    if cardinality(wanted) > 0 then
        insert into queues.outbox_delivery (event_id, sink, subject)
        select number, w, case when ordered then subject end from unnest(wanted) w;
        if exists (select from queues.sleeper s where s.queues = '{"outbox "}' and s.until > clock_timestamp()) then
            perform pg_notify('reproq_outbox', '');
        end if;
    end if;
    return public_id;
end $$;
