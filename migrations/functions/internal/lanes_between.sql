-- The lanes (type, priority) of one queue whose type lies in [low, high): the head of each, due or not. Steps from lane to
-- lane by index, so its cost is the number of lanes, not of tasks.
create or replace function internal.lanes_between(queue_name text, low text, high text) returns setof internal.lane
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    lane internal.lane;
    here internal.lane;
begin
    select 0, t.queue_name, t.task_type, t.priority, t.run_after, t.id into lane from queues.task_runs t
    where t.queue_name = lanes_between.queue_name and t.task_type >= low and t.task_type < high
      and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
    order by t.task_type, t.priority desc, t.run_after, t.id limit 1;
    while found loop
        return next lane;
        here := lane;
        select 0, t.queue_name, t.task_type, t.priority, t.run_after, t.id into lane from queues.task_runs t
        where t.queue_name = lanes_between.queue_name and t.task_type = here.task_type and t.priority < here.priority
          and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
        order by t.priority desc, t.run_after, t.id limit 1;
        continue when found;
        select 0, t.queue_name, t.task_type, t.priority, t.run_after, t.id into lane from queues.task_runs t
        where t.queue_name = lanes_between.queue_name and t.task_type > here.task_type and t.task_type < high
          and t.status in ('PENDING', 'RETRYING') and t.waiting_for = 0 and t.deleted_at is null
        order by t.task_type, t.priority desc, t.run_after, t.id limit 1;
    end loop;
end $$;
