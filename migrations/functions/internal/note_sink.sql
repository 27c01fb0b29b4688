-- How a sink stands after some deliveries. Five failures in a row pause all of it, longer with each that follows (5 min at
-- most), and then one event at a time finds out. When it lives again, what waited for a retry is due at once.
create or replace function internal.note_sink(sink text, delivered integer, failed integer, said jsonb) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    was queues.sinks;
    grown integer;
begin
    if failed = 0 and not exists (select from queues.sinks s where s.sink_name = sink and s.failures > 0) then
        return;
    end if;
    select s.* into was from queues.sinks s where s.sink_name = sink for no key update;
    grown := case when delivered > 0 then 0 when was.resume_at > clock_timestamp() then was.failures
                  when was.failures >= 5 then was.failures + 1 else least(5, was.failures + failed) end;
    update queues.sinks s
    set failures = grown,
        resume_at = case
            when said ->> 'rest_s' is not null then
                greatest(s.resume_at, clock_timestamp() + least((said ->> 'rest_s')::double precision, 3600) * interval '1 second')
            when delivered > 0 and s.failures >= 5 then 'epoch'
            when grown >= 5 and grown > s.failures then
                clock_timestamp() + internal.delivery_delay(grown - 4, s.backoff_base, least(s.backoff_cap, interval '5 minutes'))
            else s.resume_at end,
        enabled = s.enabled and (said -> 'gone') is distinct from 'true',
        disabled_at = case when said -> 'gone' = 'true' then coalesce(s.disabled_at, clock_timestamp()) else s.disabled_at end,
        disabled_reason = case when said -> 'gone' = 'true' then coalesce(s.disabled_reason, 'it answered 410 Gone') else s.disabled_reason end
    where s.sink_name = sink;
    if delivered > 0 and was.failures >= 5 then
        update queues.outbox_delivery d set next_at = clock_timestamp()
        where d.sink = note_sink.sink and d.event_id in (
            select x.event_id from queues.outbox_delivery x
            where x.sink = note_sink.sink and x.state = 'waiting' and x.leased_until is null and x.attempts > 0
              and x.next_at > clock_timestamp()
            order by x.event_id for update skip locked);
    end if;
end $$;
