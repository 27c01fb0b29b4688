-- One field of a cron expression as the numbers that it means: *, n, a-b, lists, steps (*/5, 10-30/5, 3/15), names.
create or replace function internal.cron_field(field text, low integer, high integer, names text[]) returns integer[]
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
declare
    term text;
    parts text[];
    first integer;
    last integer;
    step integer;
    found integer[] := '{}';
begin
    foreach term in array string_to_array(upper(field), ',') loop
        parts := regexp_match(term, '^([*]|[0-9]{1,2}|[A-Z]{3})(?:-([0-9]{1,2}|[A-Z]{3}))?(?:/([0-9]{1,2}))?$');
        if parts is null or (parts[1] = '*' and parts[2] is not null) then
            raise exception using errcode = 'RQ003', message = format('%s in a cron expression means nothing', quote_literal(left(term, 20)));
        end if;
        step := coalesce(parts[3]::integer, 1);
        first := case when parts[1] = '*' then low else internal.cron_number(parts[1], low, names) end;
        last := case when parts[2] is not null then internal.cron_number(parts[2], low, names)
                     when parts[1] = '*' or parts[3] is not null then high else first end;
        if first not between low and high or last not between first and high or step < 1 then
            raise exception using errcode = 'RQ003',
                message = format('%s in a cron expression is out of range (%s to %s)', quote_literal(left(term, 20)), low, high);
        end if;
        found := found || array(select generate_series(first, last, step));
    end loop;
    return found;
end $$;
