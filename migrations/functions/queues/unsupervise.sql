-- The process has ended: nobody resumes its supervisor any more.
create or replace function queues.unsupervise(supervisor text, ids jsonb, queue_name text default 'default') returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    delete from internal.open_process p
    where p.spec_hash = queues.spec_hash('db_function', queue_name, internal.supervisor_payload(supervisor, ids));
end $$;
