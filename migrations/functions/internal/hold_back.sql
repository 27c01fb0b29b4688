-- New tasks that may not run yet: they wait for others, for a slot of their key (until the commit at least:
-- internal.admit_at_commit), or both. Parents are locked in the order of
-- their ids, so that none ends between the look at it and the edge.
create or replace function internal.hold_back(ids bigint[], after bigint[], after_policy text, limit_key text) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    if after is not null and cardinality(after) > 0 then
        perform internal.wait_for(ids, array(select distinct a from unnest(after) a order by a), after_policy);
    end if;
    if limit_key is not null then
        update internal.flow f set keys = true where not f.keys;
    end if;
end $$;
