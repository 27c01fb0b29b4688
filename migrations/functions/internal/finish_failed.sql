-- The failures and snoozes of a finish, one by one in id order. Their rows are locked already, in the same order.
create or replace function internal.finish_failed(worker_id text, outcomes jsonb) returns void
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
    problem jsonb;
    task queues.task_runs;
begin
    for problem in
        select o from jsonb_array_elements(finish_failed.outcomes) o
        where (o ->> 'success')::boolean is not true order by (o ->> 'id')::bigint
    loop
        select t.* into task from queues.task_runs t
        where t.id = (problem ->> 'id')::bigint and t.claim_no = (problem ->> 'claim_no')::bigint
          and t.worker_id = finish_failed.worker_id
        for update;
        if task.status = 'CANCELLED' and problem -> 'detail' is not null and not exists (
            select from queues.task_events e
            where e.task_id = task.id and e.claim_no = task.claim_no and e.event = 'stopped')
        then  -- its lease may be gone by now; how its process ended is still to be told, once
            perform internal.add_event('stopped', task.id, task.claim_no, task.attempt_count, task.worker_id,
                                       problem -> 'detail');
        end if;
        continue when task.id is null or task.leased_until is null or task.status <> 'RUNNING';
        if problem ->> 'snooze_s' is not null then
            perform internal.put_back(
                task, now() + greatest(0, least((problem ->> 'snooze_s')::double precision, 366 * 86400)) * interval '1 second',
                jsonb_build_object('reason', 'snoozed', 'snooze_s', problem -> 'snooze_s'), true);
        else
            perform internal.end_failed(task, problem, now(), true);
        end if;
    end loop;
end $$;
