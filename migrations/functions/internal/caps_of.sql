-- How many more tasks of each limited queue and type among these lanes may be claimed now. The rows of limits that leave any
-- are locked until the claim ends: between this count and the claim nobody else leases one. An empty bucket is only read:
-- what waits ahead of others costs their claims no write.
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
        order by l.scope, l.name
    loop
        spare := case when bound.rate is null then 1e9 else floor(internal.refill(bound)) end;
        if spare >= 1 then
            select l.* into bound from queues.limits l where l.scope = bound.scope and l.name = bound.name for update;
            continue when not found;
            spare := case when bound.rate is null then 1e9 else floor(internal.refill(bound)) end;
        end if;
        if spare >= 1 and bound.concurrency is not null then
            spare := least(spare, bound.concurrency - (
                select count(*) from queues.task_runs t
                where t.leased_until is not null
                  and case bound.scope when 'queue' then t.queue_name else t.task_type end = bound.name));
        end if;
        caps := caps || row(bound.scope, bound.name, greatest(0, spare)::integer)::internal.cap;
    end loop;
    return caps;
end $$;
