-- These lanes with each bundle opened (see arrange).
create or replace function internal.unbundled(lanes internal.lane[]) returns internal.lane[]
    language sql stable
    set search_path = pg_catalog, pg_temp as $$
    select array(select l from unnest(lanes) l where l.more is null
                 union all select o from unnest(lanes) b cross join unnest(b.more::internal.lane[]) o where b.more is not null);
$$;
