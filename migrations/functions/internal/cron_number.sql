-- A number of a cron field, or a name: JAN is 1, SUN is 0.
create or replace function internal.cron_number(word text, low integer, names text[]) returns integer
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    if word ~ '^[0-9]+$' then
        return word::integer;
    end if;
    return coalesce(array_position(names, word) - 1 + low, -1);
end $$;
