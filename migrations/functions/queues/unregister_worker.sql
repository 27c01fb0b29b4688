create or replace function queues.unregister_worker(worker_id text) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    delete from queues.sleeper s where s.worker_id = unregister_worker.worker_id;
    update queues.leader l set until = clock_timestamp() where l.worker_id = unregister_worker.worker_id and l.until > clock_timestamp();
    delete from queues.workers w where w.id = unregister_worker.worker_id;
end $$;
