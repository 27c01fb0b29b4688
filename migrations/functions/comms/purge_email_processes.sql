-- A batch of sends that ended before a moment, with all that hangs on them. Only internal.purge_processes calls it.
create or replace function comms.purge_email_processes(before timestamptz, at_most integer) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
declare
    ids bigint[] := array(
        select e.send_email_task_id from comms.send_email_task_ended e where e.created_at < before
        and not exists (select from comms.send_email_task r where r.retry_of = e.send_email_task_id)
        order by e.created_at limit at_most);
    messages bigint[];
begin
    perform from comms.send_email_task r where r.send_email_task_id = any (ids) order by r.send_email_task_id for update;
    delete from queues.channel_call a using comms.send_email_task_scheduled s
    where s.send_email_task_id = any (ids) and a.task_id = s.task_run_id;
    with gone as (delete from comms.send_email_task r where r.send_email_task_id = any (ids) returning r.message_id)
    select array_agg(g.message_id) into messages from gone g;
    delete from comms.message m where m.message_id = any (messages);
    return coalesce(cardinality(messages), 0);
end $$;
