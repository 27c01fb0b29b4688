-- Whether a day fits the fields day, month and weekday. As in Debian's cron: if day or weekday begins with a star both must
-- fit, else one of them. L is the month's last day, 5L its last Friday, 5#2 its second one.
create or replace function internal.cron_days(day date, parts text[]) returns boolean
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
declare
    last_day integer := extract(day from date_trunc('month', day) + interval '1 month - 1 day');
    day_no integer := extract(day from day);
    weekday integer := extract(dow from day);
    fits_day boolean;
    fits_weekday boolean := false;
    term text;
    special text[];
begin
    if extract(month from day)::integer <> all (
        internal.cron_field(parts[4], 1, 12, '{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}')) then
        return false;
    end if;
    fits_day := case when upper(parts[3]) = 'L' then day_no = last_day else day_no = any (internal.cron_field(parts[3], 1, 31, '{}')) end;
    foreach term in array string_to_array(upper(parts[5]), ',') loop
        special := regexp_match(term, '^([0-7]|SUN|MON|TUE|WED|THU|FRI|SAT)(L|#[1-5])$');
        if special is null then
            fits_weekday := fits_weekday or internal.cron_field(term, 0, 7, '{SUN,MON,TUE,WED,THU,FRI,SAT}') && array[weekday, nullif(weekday, 0), case weekday when 0 then 7 end];
        elsif internal.cron_number(special[1], 0, '{SUN,MON,TUE,WED,THU,FRI,SAT}') % 7 = weekday then
            fits_weekday := fits_weekday or case special[2] when 'L' then day_no + 7 > last_day
                                                 else (day_no + 6) / 7 = right(special[2], 1)::integer end;
        end if;
    end loop;
    if parts[3] like '*%' or parts[5] like '*%' then
        return fits_day and fits_weekday;
    end if;
    return fits_day or fits_weekday;
end $$;
