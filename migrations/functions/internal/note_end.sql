-- A slot was left: the next task of its key is admitted. A parent is over, whatever way it ended: noted for
-- internal.tell_children.
create or replace function internal.note_end() returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp as $$
begin
    if old.limit_slot is not null and new.limit_slot is null then
        perform internal.admit(old.limit_key);
    end if;
    if new.has_children and new.leased_until is null and (new.completed_at is not null or new.deleted_at is not null)
       and (old.leased_until is not null or (old.completed_at is null and old.deleted_at is null)) then
        insert into internal.parent_over (parent_id) values (new.id) on conflict do nothing;
    end if;
    return null;
end $$;
