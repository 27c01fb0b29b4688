-- The root of a send, and its supervisor at the time of the send: waiting costs nothing. Null if the key is taken.
create or replace function comms.start_email(
    message_id bigint, scheduled_at timestamptz, idempotency_key text, max_attempts integer, queue_name text, on_unknown text,
    retry_of bigint) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    root comms.send_email_task;
begin
    perform internal.check_enqueue('email', coalesce(queue_name, 'default'), scheduled_at, 0, coalesce(max_attempts, 0), null,
                                   null, null, idempotency_key, null, null);
    if max_attempts > 100 then
        raise exception using errcode = 'RQ003', message = format('max_attempts %s is out of range', max_attempts),
            hint = 'A send is attempted 1 to 100 times.';
    elsif on_unknown not in ('park', 'resend') then
        raise exception using errcode = 'RQ003', message = format('on_unknown %s is unknown', quote_literal(left(on_unknown, 60))),
            hint = 'It is ''park'' or ''resend''; left out, the provider''s own way counts.';
    end if;
    insert into comms.send_email_task (message_id, scheduled_at, patience, max_attempts, run_limit, on_unknown, queue_name,
                                       idempotency_key, retry_of)
    select message_id, scheduled_at, s.patience, max_attempts, case when max_attempts > s.run_limit then max_attempts + 5 else s.run_limit end, on_unknown, coalesce(queue_name, s.queue_name::text),
           idempotency_key, retry_of
    from comms.setting s
    on conflict do nothing
    returning * into root;
    if root.send_email_task_id is not null then
        perform comms.supervise_email(root, scheduled_at);
        return root.send_email_task_id;
    end if;
    return (select r.send_email_task_id from comms.send_email_task r where r.message_id = start_email.message_id);
end $$;
