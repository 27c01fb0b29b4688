-- One attempt failed: later again, or given up. A 4xx says that the event won't be taken, ever; but for 408, 425 and 429, and
-- 410, after which the sink is disabled and the event waits for whoever enables it.
create or replace function internal.fail_delivery(sink text, event_number bigint, status integer, error text, retry_after_s double precision)
    returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    ends boolean;
begin
    update queues.outbox_delivery d
    set attempts = d.attempts + 1, first_at = coalesce(d.first_at, clock_timestamp()), leased_until = null,
        last_status = status, last_error = left(error, 500),
        next_at = clock_timestamp() + greatest(
            internal.delivery_delay(d.attempts + 1, s.backoff_base, s.backoff_cap),
            least(coalesce(retry_after_s, 0), 3600) * interval '1 second'),
        state = case when f.ends then 'parked' else 'waiting' end, ended_at = case when f.ends then clock_timestamp() end
    from queues.sinks s
    cross join lateral (
        select (status between 400 and 499 and status not in (408, 410, 425, 429)) is true
               or x.attempts + 1 >= s.max_attempts or clock_timestamp() - x.first_at > s.max_age is true as ends
        from queues.outbox_delivery x where x.event_id = event_number and x.sink = s.sink_name) f
    where s.sink_name = fail_delivery.sink and d.event_id = event_number and d.sink = s.sink_name
    returning f.ends into ends;
    if ends then
        perform internal.sink_is_done(array[event_number]);
    end if;
end $$;
