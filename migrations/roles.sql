-- The roles are the whole server's: they are made first, in a transaction of their own, and shared by all its databases.
-- Safe to repeat. A rival that makes the same role at the same moment wins, and the run goes on.
-- What each may do stands in grants.sql; a login gets its rights by GRANT <role> TO <login>.

do $roles$
declare
    wanted text;
begin
    foreach wanted in array array[
        'reproq_owner',           -- owns every object; nobody logs in as it
        'worker_service_user',    -- workers: EXECUTE on the engine's functions, no right on any table
        'reproq_app',             -- applications: enqueue, cancel, ask
        'reproq_reader',          -- people and dashboards: redacted views
        'reproq_dispatcher',      -- the outbox dispatcher: claim and acknowledge deliveries
        'reproq_process_author'   -- who installs business processes of their own
    ]
    loop
        if not exists (select from pg_catalog.pg_roles where rolname = wanted) then
            begin
                execute format('create role %I nologin', wanted);
            exception when duplicate_object or unique_violation then
                null;
            end;
        end if;
    end loop;
end
$roles$;
