-- The one back-off: doubling from base to cap, plus up to half of it at random so that a herd spreads.
create or replace function internal.retry_delay(task_type text, attempt_count integer) returns interval
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    base interval;
    cap interval;
    raw_s double precision;  -- as a number: an interval would overflow
begin
    select t.backoff_base, t.backoff_cap into base, cap
    from queues.task_types t where t.task_type = retry_delay.task_type;
    cap := coalesce(cap, interval '5 minutes');
    raw_s := least(extract(epoch from cap), extract(epoch from coalesce(base, interval '1 second'))
                   * power(2::double precision, least(greatest(attempt_count, 1) - 1, 60)));
    return raw_s * (1 + random() / 2) * interval '1 second';
end $$;
