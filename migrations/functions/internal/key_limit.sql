-- The limit of a key: its own, else that of its class (what stands before the first colon, "customer:*"), else that of "*",
-- else one at a time.
create or replace function internal.key_limit(limit_key text) returns queues.limits
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    found_limit queues.limits;
begin
    select l.* into found_limit from queues.limits l
    where l.scope = 'key' and l.name in (limit_key, split_part(limit_key, ':', 1) || ':*', '*')
    order by l.name = limit_key desc, l.name <> '*' desc limit 1;
    if found_limit.name is null then
        found_limit.concurrency := 1;
    end if;
    return found_limit;
end $$;
