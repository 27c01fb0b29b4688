-- Sends one text message, reliably, as part of the caller's transaction: message, process and supervisor are there if it
-- commits. With an idempotency key the second call answers the first one's id and changes nothing.
create or replace function comms.send_sms(
    to_number text, body text, from_number text default null, scheduled_at timestamptz default now(),
    idempotency_key text default null, max_attempts integer default 6, queue_name text default null,
    on_unknown text default null) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    id bigint := comms.find_send_sms_key(idempotency_key);
begin
    for i in 1 .. 100 loop
        exit when id is not null;
        begin
            id := comms.start_sms(comms.create_sms_message(to_number, body, from_number),
                                  scheduled_at, idempotency_key, max_attempts, queue_name, on_unknown, null);
            if id is null then  -- somebody was faster: this message goes, theirs stays
                raise exception using errcode = 'RQ009';
            end if;
        exception when sqlstate 'RQ009' then
            id := comms.find_send_sms_key(idempotency_key);
        end;
    end loop;
    if id is null then
        raise exception using errcode = 'RQ006', message = 'the send that holds this key keeps changing; nothing was sent',
            hint = 'Call again.';
    end if;
    return id;
end $$;
