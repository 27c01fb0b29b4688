-- What a worker is to bring to its next claim: lanes as text, because a thousand in jsonb would cost 5 ms a claim. Bundles stand
-- beside the others: inside of an array's text their own would be quoted, each quote again for every level. Where times are not
-- written as ISO 8601 there are none.
create or replace function internal.write_hints(
    scope bigint, looked_at timestamptz, headed_at timestamptz, took interval, reclaimed_at timestamptz, swept_at timestamptz,
    sweep_took interval, last_queue text, lanes internal.lane[]) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
declare
    readable boolean := current_setting('datestyle') like 'ISO%';
    apart internal.lane[] := array(select l from unnest(lanes) l where l.more is null);
    bundles jsonb := (
        select jsonb_agg(jsonb_build_array(l.pool, l.queue_name, l.priority, l.run_after, l.id, l.more))
        from unnest(lanes) l where l.more is not null);
begin
    return jsonb_build_object(
        'at', looked_at, 'headed', headed_at, 'took_ms', extract(epoch from took) * 1000, 'reclaimed', reclaimed_at,
        'swept', swept_at, 'swept_ms', extract(epoch from sweep_took) * 1000, 'scope', scope, 'queue', last_queue,
        'lanes', case when readable then apart::text end, 'bundles', case when readable then bundles end);
end $$;
