-- How many tasks queues.cancel_many or replay_many would be for, and the highest id of now: whoever asks first and acts then
-- passes it on, so that nothing is caught that came later.
create or replace function queues.count_chosen(
    action text, type_prefix text default null, queue_name text default null, status text default null,
    older_than interval default null, failure_kind text default null, out tasks bigint, out upto_id bigint)
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    select count(*), coalesce(max(c), 0) into tasks, upto_id
    from internal.chosen(action, type_prefix, queue_name, status, older_than, failure_kind, 0, null, null) c;
end $$;
