-- One batch of an order by filter: cancels up to `batch` tasks in the order of their ids and answers where it ended and how
-- many got which answer of queues.cancel. The caller commits between batches, and goes on after last_id until that is null.
create or replace function queues.cancel_many(
    type_prefix text default null, queue_name text default null, status text default null, older_than interval default null,
    failure_kind text default null, reason text default null, after_id bigint default 0, upto_id bigint default null,
    batch integer default 1000, out last_id bigint, out answers jsonb)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    ids bigint[];
    task_id bigint;
    answer text;
    said text[] := '{}';
begin
    if coalesce(batch, 0) not between 1 and 10000 then
        raise exception using errcode = 'RQ003', message = 'a batch has 1 to 10000 tasks', hint = 'Call again with after_id => last_id for the next.';
    end if;
    ids := array(select internal.chosen('cancel', type_prefix, queue_name, status, older_than, failure_kind, after_id, upto_id, batch));
    perform from queues.task_runs t where t.id = any (ids) order by t.id for update;  -- all of them first: the order of a finish
    foreach task_id in array ids loop
        answer := queues.cancel(task_id, reason);
        said := said || answer;
    end loop;
    last_id := ids[cardinality(ids)];
    answers := coalesce((select jsonb_object_agg(s.answer, s.n) from (
        select a as answer, count(*) as n from unnest(said) a group by a) s), '{}');
end $$;
