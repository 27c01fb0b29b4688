-- One look at everything, for a screen that asks again and again: queues, workers, what came in since task `p_after_id`.
-- Whatever could be long is counted up to `p_most`, so that a look costs the same over a hundred tasks and a hundred
-- million. No payload, no error text, and of a worker's id only what people gave it.
create or replace function queues.overview(p_after_id bigint default null, p_most integer default 10000) returns jsonb
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    answer jsonb;
begin
    if p_most is null or p_most not between 1 and 100000 then
        raise exception using errcode = 'RQ003', message = 'p_most is the highest count, 1 to 100,000';
    end if;
    with leased as materialized (
        select t.queue_name::text as queue_name, t.worker_id from queues.task_runs t
        where t.leased_until is not null limit 100000
    ), failed as materialized (
        select x.queue_name, count(*) as dead from (
            select t.queue_name::text as queue_name, t.supervised or t.deleted_at is not null as is_none
            from queues.task_runs t where t.status = 'FAILED' order by t.id desc limit p_most) x
        where not x.is_none group by x.queue_name
    ), waiting as materialized (
        select t.queue_name::text as queue_name, count(*) as waiting
        from (select d.child_id as id from (select d.child_id from queues.task_dependency d limit p_most) d
              union
              select k.id from (
                  select p.id from queues.task_runs p
                  where p.limit_key is not null and p.limit_slot is null and p.status in ('PENDING', 'RETRYING')
                    and p.deleted_at is null
                  limit p_most) k) x
        join queues.task_runs t on t.id = x.id
        where t.waiting_for > 0 and t.status in ('PENDING', 'RETRYING') and t.deleted_at is null
        group by t.queue_name
    ), came as materialized (
        select x.queue_name, count(*) as came from (
            select t.queue_name::text as queue_name from queues.task_runs t
            where t.id > p_after_id order by t.id desc limit p_most) x
        group by x.queue_name
    ), running as materialized (
        select l.queue_name, count(*) as running from leased l group by l.queue_name
    ), named as (
        select q as queue_name from internal.queues_with_work(null) q
        union select s.queue_name::text from queues.queue_settings s
        union select r.queue_name from running r union select f.queue_name from failed f
        union select w.queue_name from waiting w union select c.queue_name from came c
        order by 1 limit 1000
    )
    select jsonb_build_object(
        'at', extract(epoch from clock_timestamp()),
        'most', p_most,
        'last_id', coalesce(pg_sequence_last_value(pg_get_serial_sequence('queues.task_runs', 'id')::regclass), 0),
        'updates', pg_stat_get_tuples_updated('queues.task_runs'::regclass),
        'queues', coalesce((
            select jsonb_agg(jsonb_build_object(
                'name', n.queue_name, 'paused', coalesce(s.paused, false), 'ready', c.ready, 'later', c.later,
                'waiting', coalesce(w.waiting, 0), 'running', coalesce(r.running, 0), 'dead', coalesce(f.dead, 0),
                'came', coalesce(i.came, 0), 'oldest_s', extract(epoch from now() - c.oldest)) order by n.queue_name)
            from named n cross join lateral internal.count_queue(n.queue_name, p_most) c
            left join queues.queue_settings s on s.queue_name = n.queue_name
            left join waiting w on w.queue_name = n.queue_name left join running r on r.queue_name = n.queue_name
            left join failed f on f.queue_name = n.queue_name left join came i on i.queue_name = n.queue_name), '[]'),
        'workers', coalesce((
            select jsonb_agg(jsonb_build_object(
                'name', substring(w.id from '^(.*)/[^/]*$'), 'host', w.hostname, 'pid', w.pid, 'version', w.version,
                'queues', w.queues, 'prefixes', w.prefixes, 'children', w.pool_size, 'leads', w.leads,
                'up_s', extract(epoch from clock_timestamp() - w.started_at),
                'heard_s', extract(epoch from clock_timestamp() - w.last_heartbeat),
                'holds', (select count(*) from leased l where l.worker_id = w.id)) order by w.id)
            from (select * from queues.workers x order by x.last_heartbeat desc limit 1000) w), '[]'))
    into answer;
    return answer;
end $$;
