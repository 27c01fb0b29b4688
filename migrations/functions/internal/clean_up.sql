-- Supervisors that were lost come back; workers that are silent, and what is older than it is kept, go. A batch of each.
create or replace function internal.clean_up(worker_timeout interval) returns jsonb
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    resumed bigint := comms.resume_supervisors();
    workers bigint := 0;
    worker queues.workers;
    tasks record;
    events bigint := internal.forget_events();
    published bigint := internal.tidy_outbox();
    processes bigint := internal.purge_processes(
        now() - (select coalesce(s.keep_processes, interval '1000 years') from queues.settings s));
begin
    for worker in delete from queues.workers w where w.last_heartbeat < clock_timestamp() - worker_timeout returning w.* loop
        workers := workers + 1;
        perform internal.tell_lost(worker);
    end loop;
    delete from internal.schedule_slot x where x.slot < now() - interval '90 days';
    delete from queues.sleeper s where s.until < clock_timestamp() - worker_timeout;
    select * into tasks from internal.forget_finished();
    return jsonb_build_object(
        'supervisors_resumed', resumed, 'workers_removed', workers, 'tasks_forgotten', tasks.gone,
        'events_forgotten', events, 'processes_forgotten', processes, 'published_forgotten', published,
        'more', tasks.rest or events >= 5000 or processes >= 1000 or published >= 5000);
end $$;
