-- A claim, a heartbeat or a finish that was answered must survive a crash, whatever the role's or server's default says.
-- Set for this transaction only: a session setting doesn't survive a transaction pooler.
create or replace function internal.durable_commit() returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp as $$
begin
    if current_setting('synchronous_commit') in ('off', 'local') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
end $$;
