-- The lanes of one queue and priority in the order of their heads. Of more than 200 only the first hundred are kept apart: the
-- others are a bundle, one lane that holds their text, since reading, sorting and writing a thousand of them cost more than the
-- rows of a claim. It is opened when it comes first. Until then what is in it may be due half a second before what is claimed.
create or replace function internal.arrange(candidates internal.lane[]) returns internal.lane[]
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
declare
    lanes internal.lane[] := candidates;
    bundled boolean;
begin
    loop
        -- The keys come first: behind a lane, which has no fixed length, they would be looked for in each comparison.
        select array_agg(s.lane), bool_or(s.is_bundle) into lanes, bundled
        from (select case when l.more is null then l.run_after else l.run_after + interval '0.5 s' end, l.id,
                     l.more is not null as is_bundle, l as lane
              from unnest(lanes) l order by 1, 2) s;
        exit when (lanes[1]).more is null;
        lanes := lanes[2:] || (lanes[1]).more::internal.lane[];
    end loop;
    if cardinality(lanes) > 200 and not bundled then
        lanes := lanes[1:100] || row((lanes[1]).pool, (lanes[1]).queue_name, null, (lanes[1]).priority,
                                     (lanes[101]).run_after, (lanes[101]).id, null, lanes[101:]::text)::internal.lane;
    end if;
    return coalesce(lanes, '{}');
end $$;
