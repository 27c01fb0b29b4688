-- The first slot of a cron expression after a moment, or null if none comes within 50 years. An expression that names hour and
-- minute means the clock on the wall: skipped by a change to summer time it is due at the change, shown twice it is due
-- once. One with a star in hour or minute means time that passes: it follows the clock through both changes.
create or replace function queues.cron_next(expression text, time_zone text, after timestamptz) returns timestamptz
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    parts text[] := internal.cron_parts(expression);
    minutes integer[] := internal.cron_field(parts[1], 0, 59, '{}');
    hours integer[] := internal.cron_field(parts[2], 0, 23, '{}');
    passing boolean := parts[1] like '*%' or parts[2] like '*%';
    day date;
    slot timestamptz;
begin
    day := (after at time zone time_zone)::date - 1;  -- a slot of the day before may have been put off by a change
    for i in 1 .. 18628 loop
        if internal.cron_days(day, parts) then
            if passing then
                select min(m) into slot
                from generate_series(greatest(date_trunc('minute', after), internal.first_moment(day::timestamp, time_zone)),
                                     internal.first_moment((day + 1)::timestamp, time_zone), interval '1 minute') m
                where m > after and (m at time zone time_zone)::date = day
                  and extract(minute from m at time zone time_zone)::integer = any (minutes)
                  and extract(hour from m at time zone time_zone)::integer = any (hours);
            else
                select min(x.moment) into slot
                from unnest(hours) h, unnest(minutes) n,
                     lateral (select internal.first_moment(day + make_time(h, n, 0), time_zone) as moment) x
                where x.moment > after;
            end if;
            if slot is not null then
                return slot;
            end if;
        end if;
        day := day + 1;
    end loop;
    return null;
end $$;
