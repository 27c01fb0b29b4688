-- A generic plan made while the table is tiny may join by reading all of it, and is kept while the table grows, until
-- somebody analyzes it: 1,600 µs a row instead of 10 (seen). So statements that join by key are planned anew each time
-- until the table has grown up; the plan that is kept then is one by key. Lasts as long as the calling function, which must
-- set plan_cache_mode itself.
create or replace function internal.plan_by_size() returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp as $$
begin
    if pg_relation_size('queues.task_runs') > 8 * 1024 * 1024 then
        perform set_config('plan_cache_mode', 'force_generic_plan', true);
    end if;
end $$;
