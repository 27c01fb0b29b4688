-- Which of the worker's pools (1 …) serves a type; 0 = none. A pool names types, prefixes, or nothing (= all the rest);
-- one that says "never" keeps its types from the pools behind it.
create or replace function internal.pool_of(task_type text, pools jsonb) returns integer
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
declare
    pool jsonb;
    serves boolean;
begin
    if pools is null then
        return 1;
    end if;
    for n in 1 .. jsonb_array_length(pools) loop  -- as one query it would cost more than to find a lane
        pool := pools -> n - 1;
        if pool ? 'types' or pool ? 'prefixes' then
            serves := coalesce(pool -> 'types' ? task_type, false);
            if not serves and pool ? 'prefixes' then
                serves := exists (select from jsonb_array_elements_text(pool -> 'prefixes') x where starts_with(task_type, x));
            end if;
        else
            serves := true;
        end if;
        if serves then
            return case when pool ->> 'never' = 'true' then 0 else n end;
        end if;
    end loop;
    return 0;
end $$;
