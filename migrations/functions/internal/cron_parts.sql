-- The five fields of an expression; @daily and the like are written out.
create or replace function internal.cron_parts(expression text) returns text[]
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
declare
    blanks constant text := ' ' || chr(9) || chr(10) || chr(13);
    parts text[] := regexp_split_to_array(btrim(case lower(btrim(expression, blanks))
        when '@hourly' then '0 * * * *' when '@daily' then '0 0 * * *' when '@midnight' then '0 0 * * *'
        when '@weekly' then '0 0 * * 0' when '@monthly' then '0 0 1 * *'
        when '@yearly' then '0 0 1 1 *' when '@annually' then '0 0 1 1 *' else expression end, blanks), '[[:space:]]+');
begin
    if expression is null or length(expression) > 200 or cardinality(parts) <> 5 then
        raise exception using errcode = 'RQ003',
            message = format('a cron expression has five fields, not %s', quote_literal(left(coalesce(expression, '(null)'), 60))),
            hint = 'minute hour day month weekday: ''30 6 * * MON-FRI'' is half past six on working days.';
    end if;
    return parts;
end $$;
