-- The process has ended: its supervisor waits no more, and nobody resumes it.
create or replace function queues.unsupervise(supervisor text, ids jsonb, queue_name text default 'default') returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    perform internal.close_process(supervisor, ids, queue_name, null);
end $$;
