-- What only the database knows, as (name, labels, value) in base units: what waits, what has failed, what hinders vacuum.
--
-- Bounded at any size: of a queue at most 20,000 tasks of each kind are counted (reproq_queue_has_more says that there are
-- more), and when the queues have taken a second those left are skipped (reproq_measure_complete is 0). Over five million
-- rows it takes 12 ms; what makes it long is dead rows that an old snapshot keeps. Not for a loop: the leader asks every 15 s
-- at most.
--
-- Of other logins' sessions a server tells ages only to members of pg_read_all_stats; reproq_sessions_hidden says how many it
-- kept back (docs/metrics.md).
create or replace function queues.measure() returns table (name text, labels jsonb, value double precision)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    began constant timestamptz := clock_timestamp();
    most constant integer := 20000;
    complete boolean := true;
    queue text;
    seen record;
begin
    for queue in select q from internal.queues_with_work(null) q limit 200 loop
        complete := clock_timestamp() < began + interval '1 s';
        exit when not complete;
        select c.* into seen from internal.count_queue(queue, most) c;
        return query values
            ('reproq_queue_tasks', jsonb_build_object('queue', queue, 'status', 'ready'), seen.ready::double precision),
            ('reproq_queue_tasks', jsonb_build_object('queue', queue, 'status', 'scheduled'), seen.later::double precision),
            ('reproq_queue_has_more', jsonb_build_object('queue', queue), (greatest(seen.ready, seen.later) >= most)::integer::double precision),
            ('reproq_queue_oldest_ready_seconds', jsonb_build_object('queue', queue),
             coalesce(extract(epoch from now() - seen.oldest), 0)::double precision);
    end loop;
    return query
    select 'reproq_queue_tasks', jsonb_build_object('queue', l.queue_name, 'status', 'running'), count(*)::double precision
    from (select r.queue_name::text from queues.task_runs r where r.leased_until is not null limit most) l
    group by l.queue_name order by count(*) desc limit 200;
    return query
    select 'reproq_dead_letters', '{}'::jsonb, case when count(*) < most then count(*) filter (where f.is_dead) else
        greatest(count(*), (select c.reltuples from pg_class c where c.oid = 'queues.task_runs_failed'::regclass)) end::double precision
    from (select t.deleted_at is null and not t.supervised as is_dead from queues.task_runs t where t.status = 'FAILED' limit most) f;
    return query select o.* from internal.measure_outbox() o;
    return query
    select 'reproq_workers_live', '{}'::jsonb, count(*)::double precision
    from queues.workers w where w.last_heartbeat > clock_timestamp() - interval '90 s';
    return query
    select 'reproq_schedule_lag_seconds', '{}'::jsonb,
           coalesce(greatest(0, extract(epoch from clock_timestamp() - min(s.next_slot))), 0)::double precision
    from queues.schedules s where s.enabled;
    return query
    select m.name, '{}'::jsonb, m.value
    from (select coalesce(greatest(0, extract(epoch from clock_timestamp() - min(a.xact_start) filter (
                     where a.backend_xmin is not null or a.backend_xid is not null))), 0)::double precision as oldest,
                 (count(*) filter (where a.query = '<insufficient privilege>'))::double precision as hidden
          from pg_stat_activity a where a.datname = current_database() and a.pid <> pg_backend_pid()) s
    cross join lateral (values ('reproq_oldest_snapshot_seconds', s.oldest), ('reproq_sessions_hidden', s.hidden)) m(name, value);
    return query values
        ('reproq_table_dead_rows', jsonb_build_object('table', 'task_runs'), pg_stat_get_dead_tuples('queues.task_runs'::regclass)::double precision),
        ('reproq_table_live_rows', jsonb_build_object('table', 'task_runs'), pg_stat_get_live_tuples('queues.task_runs'::regclass)::double precision),
        ('reproq_table_size_bytes', jsonb_build_object('table', 'task_runs'), pg_total_relation_size('queues.task_runs'::regclass)::double precision),
        ('reproq_measure_complete', '{}'::jsonb, complete::integer::double precision),
        ('reproq_measure_seconds', '{}'::jsonb, extract(epoch from clock_timestamp() - began)::double precision);
end $$;
