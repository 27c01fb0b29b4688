-- The leader's chores, a second of them at most: schedules, and with `everything` what nobody waits for. The first look is
-- at its own row, and shares it: a takeover waits until this call has ended, and a call under an old term does nothing and
-- answers null. `again_in_s` says when the next slot is due; null: call again at once, there is more to forget.
create or replace function queues.keep_house(
    term bigint, worker_timeout interval default '90 seconds', everything boolean default true) returns jsonb
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    done jsonb;
    until_slot double precision;
begin
    perform from queues.leader l where l.term = keep_house.term and l.until > clock_timestamp() for share;
    if not found then
        return null;
    end if;
    done := jsonb_build_object('slots_enqueued', internal.enqueue_due_slots(clock_timestamp()));
    if everything then
        done := done || internal.clean_up(worker_timeout);
    end if;
    select extract(epoch from min(s.next_slot) - clock_timestamp()) into until_slot
    from queues.schedules s where s.enabled and s.tried_at is null;
    return done - 'more' || jsonb_build_object(
        'again_in_s', case when done -> 'more' = 'true' then null else greatest(0, least(60, coalesce(until_slot, 60))) end);
end $$;
