-- What was admitted to a slot of its key before its queue or type was paused leaves it to others, and waits for one again.
create or replace function internal.leave_paused_slots() returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off as $$
declare
    paused_queues text[] := array(select s.queue_name::text from queues.queue_settings s where s.paused);
    paused_types text[] := array(select y.task_type::text from queues.task_types y where y.paused);
begin
    if paused_queues = '{}' and paused_types = '{}' then
        return;
    end if;
    update queues.task_runs t set limit_slot = null, waiting_for = t.waiting_for + 1, updated_at = clock_timestamp()
    where t.id in (
        select x.id from queues.task_runs x
        where x.limit_slot is not null and x.leased_until is null and x.status in ('PENDING', 'RETRYING') and x.deleted_at is null
          and (x.queue_name = any (paused_queues) or x.task_type = any (paused_types))
        limit 1000 for update skip locked);
end $$;
