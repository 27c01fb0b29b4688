-- The hints of a worker's last claim, taken apart. Those of another scope know nothing of this one: only whose turn it is.
create or replace function internal.read_hints(
    hints jsonb, scope bigint,
    out looked_at timestamptz, out headed_at timestamptz, out took interval,
    out reclaimed_at timestamptz, out swept_at timestamptz, out sweep_took interval, out last_queue text,
    out demanded boolean, out lanes internal.lane[])
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    known boolean;
begin
    took := interval '0';
    demanded := false;
    if hints is null then
        return;
    end if;
    begin
        last_queue := hints ->> 'queue';
        demanded := coalesce((hints ->> 'look')::boolean, false);
        looked_at := (hints ->> 'at')::timestamptz;
        headed_at := (hints ->> 'headed')::timestamptz;
        reclaimed_at := (hints ->> 'reclaimed')::timestamptz;
        swept_at := (hints ->> 'swept')::timestamptz;
        sweep_took := coalesce((hints ->> 'swept_ms')::double precision, 0) * interval '1 millisecond';
        took := coalesce((hints ->> 'took_ms')::double precision, 0) * interval '1 millisecond';
        lanes := case when current_setting('datestyle') like 'ISO%' then (hints ->> 'lanes')::internal.lane[] end;
        if lanes is not null and jsonb_typeof(hints -> 'bundles') = 'array' then
            lanes := lanes || array(
                select row((b ->> 0)::integer, b ->> 1, null, (b ->> 2)::integer, (b ->> 3)::timestamptz, (b ->> 4)::bigint, null,
                           b ->> 5)::internal.lane
                from jsonb_array_elements(hints -> 'bundles') b);
        end if;
        known := coalesce((hints ->> 'scope')::bigint = scope and lanes is not null, false);
    exception when data_exception then
        known := null;
    end;
    if known is null or jsonb_typeof(hints) <> 'object' then
        raise exception using errcode = 'RQ003', message = 'hints are not what a claim answered',
            hint = 'Pass next_hints of the last row of the last claim as it is, or null to look from the head.';
    end if;
    if not known or greatest(looked_at, headed_at) > clock_timestamp() then  -- a clock that was set back, maybe another server's
        looked_at := null;
        took := interval '0';
    end if;
    reclaimed_at := case when reclaimed_at <= clock_timestamp() then reclaimed_at end;
    swept_at := case when swept_at <= clock_timestamp() then swept_at end;
    took := least(took, interval '10 min');
    sweep_took := least(sweep_took, interval '10 min');
end $$;
