-- The one way in which facts go: whole processes that ended before a moment, at most 1,000 of each kind a call. Answers how
-- many went. The mark holds for this transaction only, and the tables' own triggers look for it.
create or replace function internal.purge_processes(before timestamptz) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
declare
    purged bigint;
begin
    if before is null or before > now() - interval '1 hour' then
        raise exception using errcode = 'RQ003', message = 'only processes that ended more than an hour ago can be purged';
    end if;
    perform set_config('reproq.purging', pg_current_xact_id()::text, true);
    purged := comms.purge_email_processes(before, 1000) + comms.purge_sms_processes(before, 1000);
    perform set_config('reproq.purging', '', true);
    return purged;
end $$;
