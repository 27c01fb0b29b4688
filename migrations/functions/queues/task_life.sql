-- Everything that is known of one task: its row, its events, who waits for whom, what was made of it. For the app role only
-- its own. Of a worker's id only the part that people gave it: the rest is a fence. Null: no such task.
create or replace function queues.task_life(id bigint) returns jsonb
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    task queues.task_runs;
begin
    select t.* into task from queues.task_runs t where t.id = task_life.id;
    if task.id is null or not internal.may_touch(task.created_by) then
        return null;
    end if;
    return jsonb_build_object(
        'task', to_jsonb(task) - 'spec_hash' - 'attempts_open' - 'has_children'
            || jsonb_build_object('worker_id', regexp_replace(task.worker_id, '/[^/]*$', ''), 'leased', task.leased_until is not null),
        'now', clock_timestamp(),
        'events', coalesce((
            select jsonb_agg(to_jsonb(e) - 'worker_id' - 'task_id'
                             || jsonb_build_object('worker', regexp_replace(e.worker_id, '/[^/]*$', '')) order by e.created_at, e.id)
            from queues.task_events e where e.task_id = task.id), '[]'),
        'waits_for', coalesce((
            select jsonb_agg(jsonb_build_object('id', d.parent_id, 'policy', d.policy, 'task_type', p.task_type, 'status', p.status) order by d.parent_id)
            from queues.task_dependency d left join queues.task_runs p on p.id = d.parent_id where task.waiting_for > 0 and d.child_id = task.id), '[]'),
        'waited_for_by', coalesce((
            select jsonb_agg(jsonb_build_object('id', d.child_id, 'policy', d.policy, 'task_type', c.task_type, 'status', c.status) order by d.child_id)
            from queues.task_dependency d left join queues.task_runs c on c.id = d.child_id where task.has_children and d.parent_id = task.id), '[]'),
        'replays', coalesce((
            select jsonb_agg(jsonb_build_object('id', r.id, 'status', r.status) order by r.id)
            from queues.task_events e join queues.task_runs r on r.id = (e.detail ->> 'as')::bigint
            where e.task_id = task.id and e.event = 'replayed'), '[]'));
end $$;
