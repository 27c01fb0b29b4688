-- One sink less waits for each of these events. Whoever calls has locked its deliveries first, always in this order.
create or replace function internal.sink_is_done(event_ids bigint[]) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    perform from queues.outbox_event e where e.id = any (event_ids) order by e.id for no key update;
    update queues.outbox_event e
    set sinks_open = e.sinks_open - 1, published_at = case when e.sinks_open = 1 then clock_timestamp() end
    where e.id = any (event_ids);
end $$;
