-- The tasks that an order by filter is for, by their ids, from `after_id` on. `cancel` is for what hasn't ended, `replay` for
-- dead letters, or for what was cancelled if the status says so. What belongs to a supervised process isn't for either: the
-- process is cancelled or retried.
create or replace function internal.chosen(
    action text, type_prefix text, queue_name text, status text, older_than interval, failure_kind text,
    after_id bigint, upto_id bigint, most bigint) returns setof bigint
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    allowed text[] := case action when 'cancel' then '{PENDING,RETRYING,RUNNING}'::text[] when 'replay' then '{FAILED,CANCELLED}'::text[] end;
    wanted queues.task_status[];
begin
    if allowed is null then
        raise exception using errcode = 'RQ003', message = format('action %s is unknown', coalesce(quote_literal(left(action, 60)), '(null)')),
            hint = 'It is ''cancel'' or ''replay''.';
    end if;
    if status <> all (allowed) then
        raise exception using errcode = 'RQ003', message = format('no task of status %s can be chosen to %s', quote_literal(left(status, 60)), action),
            hint = format('It is one of %s; leave it out for %s.', array_to_string(allowed, ', '), case action when 'cancel' then 'all of them' else 'FAILED' end);
    end if;
    if older_than < interval '0' then
        raise exception using errcode = 'RQ003', message = 'older_than is negative', hint = 'It is an age, counted from when a task was stored.';
    end if;
    wanted := case when status is not null then array[status] when action = 'replay' then '{FAILED}'::text[] else allowed end;
    if wanted = '{FAILED}' then  -- said once more for the index of the failed ones
        return query
        select t.id from queues.task_runs t
        where t.status = 'FAILED' and t.id > coalesce(after_id, 0) and (upto_id is null or t.id <= upto_id)
          and t.deleted_at is null and not t.supervised and internal.may_touch(t.created_by)
          and (type_prefix is null or starts_with(t.task_type, type_prefix)) and (queue_name is null or t.queue_name = queue_name)
          and (older_than is null or t.created_at < now() - older_than)
          and (failure_kind is null or t.failure_kind = failure_kind)
        order by t.id limit most;
        return;
    end if;
    return query
    select t.id from queues.task_runs t
    where t.status = any (wanted) and t.id > coalesce(after_id, 0) and (upto_id is null or t.id <= upto_id)
      and t.deleted_at is null and not t.supervised and internal.may_touch(t.created_by)
      and (type_prefix is null or starts_with(t.task_type, type_prefix)) and (queue_name is null or t.queue_name = queue_name)
      and (older_than is null or t.created_at < now() - older_than)
      and (failure_kind is null or t.failure_kind = failure_kind)
    order by t.id limit most;
end $$;
