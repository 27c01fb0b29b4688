-- Sends one email, reliably, as part of the caller's transaction: message, process and supervisor are there if it commits.
-- With an idempotency key the second call answers the first one's id and changes nothing.
create or replace function comms.send_email(
    to_address text, subject text, html text default null, text_body text default null, from_address text default null,
    reply_to text default null, headers jsonb default '{}', scheduled_at timestamptz default now(),
    idempotency_key text default null, max_attempts integer default 6, queue_name text default null,
    on_unknown text default null) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    id bigint := comms.find_send_email_key(idempotency_key);
begin
    for i in 1 .. 100 loop
        exit when id is not null;
        begin
            id := comms.start_email(
                comms.create_email_message(to_address, subject, html, text_body, from_address, reply_to, headers),
                scheduled_at, idempotency_key, max_attempts, queue_name, on_unknown, null);
            if id is null then  -- somebody was faster: this message goes, theirs stays
                raise exception using errcode = 'RQ009';
            end if;
        exception when sqlstate 'RQ009' then
            id := comms.find_send_email_key(idempotency_key);
        end;
    end loop;
    if id is null then
        raise exception using errcode = 'RQ006', message = 'the send that holds this key keeps changing; nothing was sent',
            hint = 'Call again.';
    end if;
    return id;
end $$;
