-- A task with a key that lets go of its lease, is cancelled or deleted leaves its slot; if it will run again, or is opened
-- again (replay), it waits for another.
create or replace function internal.leave_slot() returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp as $$
begin
    if not (old.limit_slot is not null and new.limit_slot is not null and new.leased_until is null
            and (old.leased_until is not null or new.completed_at is not null or new.deleted_at is not null))
       and not (old.completed_at is not null and new.completed_at is null) then
        return new;
    end if;
    new.limit_slot := null;
    if new.status in ('PENDING', 'RETRYING') and new.deleted_at is null then
        new.waiting_for := new.waiting_for + 1;
    end if;
    return new;
end $$;
