-- The prefixes as ranges of the type's bytes, without those that a shorter one contains. null = every type. Types are
-- ASCII below "~", so "~" ends a range.
create or replace function internal.prefix_ranges(prefixes text[]) returns table (low text, high text)
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    if prefixes is null then
        return query select ''::text, '~'::text;
        return;
    end if;
    return query
    select distinct p, p || '~' from unnest(prefixes) p
    where p is not null and not exists (
        select from unnest(prefixes) shorter where shorter <> p and starts_with(p, shorter));
end $$;
