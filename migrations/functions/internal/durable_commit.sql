-- A claim, a heartbeat or a finish that was answered must survive a crash, whatever the role's or server's default says.
-- Set for this transaction only: a session setting doesn't survive a transaction pooler.
create or replace function internal.durable_commit() returns text
    language sql volatile
    return case when current_setting('synchronous_commit') in ('off', 'local')
                then set_config('synchronous_commit', 'on', true) end;
