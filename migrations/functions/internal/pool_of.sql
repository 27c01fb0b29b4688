-- Which of the worker's pools (1 …) serves a type; 0 = none. A pool names types, prefixes, or nothing (= all the rest);
-- one that says "never" keeps its types from the pools behind it.
create or replace function internal.pool_of(task_type text, pools jsonb) returns integer
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    if pools is null then
        return 1;
    end if;
    return coalesce((
        select case when p.pool ->> 'never' = 'true' then 0 else p.n::integer end
        from jsonb_array_elements(pools) with ordinality as p(pool, n)
        where p.pool -> 'types' ? task_type
           or exists (select from jsonb_array_elements_text(p.pool -> 'prefixes') x where starts_with(task_type, x))
           or not (p.pool ? 'types' or p.pool ? 'prefixes')
        order by p.n limit 1), 0);
end $$;
