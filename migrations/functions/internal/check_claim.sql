create or replace function internal.check_claim(worker_id text, lease interval, max_tasks integer) returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    if worker_id is null or worker_id = '' or length(worker_id) > 300 then
        raise exception using errcode = 'RQ003', message = 'worker_id must be 1 to 300 characters',
            hint = '<name>/<pid>/<boot UUID>, never used by two processes.';
    end if;
    if lease is null or lease < interval '1 second' or lease > interval '1 day' then
        raise exception using errcode = 'RQ003', message = format('lease %s is out of range', coalesce(lease::text, '(null)')),
            hint = 'A lease lasts between 1 second and 1 day.';
    end if;
    if max_tasks is null or max_tasks < 0 or max_tasks > 10000 then
        raise exception using errcode = 'RQ003', message = format('max_tasks %s is out of range', coalesce(max_tasks::text, '(null)')),
            hint = 'Claim between 0 and 10000 tasks at a time.';
    end if;
end $$;
