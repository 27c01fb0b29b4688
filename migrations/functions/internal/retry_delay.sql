-- The one back-off: doubling from base to cap, plus up to half of it at random so that a herd spreads.
create or replace function internal.retry_delay(task_type text, attempt_count integer) returns interval
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    base interval;
    cap interval;
    raw interval;
begin
    select t.backoff_base, t.backoff_cap into base, cap
    from queues.task_types t where t.task_type = retry_delay.task_type;
    cap := coalesce(cap, interval '5 minutes');
    raw := least(cap, coalesce(base, interval '1 second') * power(2, least(greatest(attempt_count, 1) - 1, 30)));
    return raw + raw * (random() / 2);
end $$;
