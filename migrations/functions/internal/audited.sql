-- Whether the ordinary events of a queue are written down.
create or replace function internal.audited(queue_name text) returns boolean
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    return exists (select from queues.queue_settings s where s.queue_name = audited.queue_name and s.audit = 'all');
end $$;
