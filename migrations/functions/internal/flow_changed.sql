-- No worker goes on by what it knew; those that sleep look.
create or replace function internal.flow_changed() returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    update internal.flow f
    set version = f.version + 1, lanes = exists (select from queues.limits l where l.scope in ('queue', 'type'));
    perform pg_notify('reproq', '');
end $$;
