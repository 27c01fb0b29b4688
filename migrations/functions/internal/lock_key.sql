-- Whether this transaction is now the one that works on a key. Each takes a place in the server's lock table, which all share:
-- a transaction has a thousand, and leaves other keys to the sweep.
create or replace function internal.lock_key(limit_key text) returns boolean
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    said text := current_setting('reproq.keys_locked', true);
    locked integer := case when said ~ '^[0-9]{1,6}$' then said::integer else 0 end;
begin
    if locked >= 1000 or not pg_try_advisory_xact_lock(hashtextextended('reproq key ' || limit_key, 0)) then
        return false;
    end if;
    perform set_config('reproq.keys_locked', (locked + 1)::text, true);
    return true;
end $$;
