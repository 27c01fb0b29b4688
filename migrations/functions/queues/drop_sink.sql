-- Removes a sink and what waits for it or is parked. Answers `dropped` or `unknown`.
create or replace function queues.drop_sink(name text) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    delete from queues.sinks s where s.sink_name = name;
    if not found then
        return 'unknown';
    end if;
    perform internal.drop_deliveries(name);
    return 'dropped';
end $$;
