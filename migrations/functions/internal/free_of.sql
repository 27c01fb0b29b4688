-- What each of a worker's pools has free; without pools, the one that there is. Refuses what is no list of pools.
create or replace function internal.free_of(pools jsonb, max_tasks integer) returns integer[]
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    free integer[];
    well_formed boolean;
begin
    if pools is null then
        return array[max_tasks];
    end if;
    begin
        select coalesce(array_agg((p.pool ->> 'free')::integer order by p.n), '{}'),
               coalesce(bool_and(p.pool ->> 'free' is not null
                                 and coalesce(jsonb_typeof(p.pool -> 'types'), 'array') = 'array'
                                 and coalesce(jsonb_typeof(p.pool -> 'prefixes'), 'array') = 'array'), true)
        into free, well_formed
        from jsonb_array_elements(pools) with ordinality as p(pool, n);
    exception when data_exception then
        well_formed := false;
    end;
    if not well_formed then
        raise exception using errcode = 'RQ003', message = 'pools is not a list of pools',
            hint = 'As in [{"free": 2, "types": ["a"]}, {"free": 1, "prefixes": ["b."]}, {"free": 8}].';
    end if;
    return free;
end $$;
