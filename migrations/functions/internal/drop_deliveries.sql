-- What waits for a sink that is gone. What it got stays with its event.
create or replace function internal.drop_deliveries(name text) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    waiting bigint[];
begin
    select array_agg(x.event_id) into waiting
    from (select d.event_id from queues.outbox_delivery d
          where d.sink = name and d.state = 'waiting' order by d.event_id for update) x;
    delete from queues.outbox_delivery d where d.sink = name and d.event_id = any (waiting);
    delete from queues.outbox_delivery d where d.sink = name and d.state = 'parked';
    perform internal.sink_is_done(waiting);
end $$;
