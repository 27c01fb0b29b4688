-- How many more tasks of each limited queue and type among these lanes may be claimed now. Their limits' rows are locked
-- until the claim ends: between this count and the claim nobody else leases one.
create or replace function internal.caps_of(lanes internal.lane[]) returns internal.cap[]
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    bound queues.limits;
    caps internal.cap[] := '{}';
    spare double precision;
begin
    for bound in
        select l.* from queues.limits l
        where (l.scope = 'queue' and l.name in (select x.queue_name from unnest(lanes) x))
           or (l.scope = 'type' and l.name in (select x.task_type from unnest(lanes) x))
        order by l.scope, l.name for update
    loop
        spare := 1e9;
        if bound.concurrency is not null then
            spare := bound.concurrency - (
                select count(*) from queues.task_runs t
                where t.leased_until is not null
                  and case bound.scope when 'queue' then t.queue_name else t.task_type end = bound.name);
        end if;
        if bound.rate is not null then
            bound.tokens := internal.refill(bound);
            update queues.limits l set tokens = bound.tokens, filled_at = clock_timestamp()
            where l.scope = bound.scope and l.name = bound.name;
            spare := least(spare, floor(bound.tokens));
        end if;
        caps := caps || row(bound.scope, bound.name, greatest(0, spare)::integer)::internal.cap;
    end loop;
    return caps;
end $$;
