-- A new task with a key has become part of its transaction's commit: admitted now, if there is a slot. Once for all of a key
-- that were enqueued one after the other.
create or replace function internal.admit_at_commit() returns trigger language plpgsql security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if current_setting('reproq.key_admitted', true) is distinct from new.limit_key then
        perform set_config('reproq.key_admitted', new.limit_key, true);
        perform internal.admit(new.limit_key);
    end if;
    return null;
end $$;
