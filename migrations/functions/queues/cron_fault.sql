-- What is wrong with an expression or a time zone, in one line; null if nothing is.
create or replace function queues.cron_fault(expression text, time_zone text) returns text
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    message text;
begin
    if not exists (select from pg_catalog.pg_timezone_names n where n.name = time_zone) then
        return format('no time zone %s; write a name of the IANA list: Europe/Berlin, America/New_York, UTC',
                      quote_literal(left(coalesce(time_zone, '(null)'), 60)));
    elsif expression is not null and queues.cron_next(expression, time_zone, now()) is null then
        return format('%s names a day that never comes', quote_literal(left(expression, 60)));
    end if;
    return null;
exception when sqlstate 'RQ003' then
    get stacked diagnostics message = message_text;
    return message;
end $$;
