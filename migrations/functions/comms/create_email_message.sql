-- Keeps a message as it will be sent. Sending is another step: kickoff_send_email_task, or both at once with send_email.
create or replace function comms.create_email_message(
    to_address text, subject text, html text default null, text_body text default null, from_address text default null,
    reply_to text default null, headers jsonb default '{}') returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    fault text := case
        when to_address is null or length(to_address) not between 3 and 500 or to_address ~ '[[:cntrl:],;]' or to_address !~ '^[^@]+@[^@]+$'
            then 'to_address must be one address, without a line break'
        when subject is null or subject ~ '[[:cntrl:]]' or length(subject) > 2000 then 'subject must be one line of at most 2000 characters'
        when html is null and text_body is null then 'html or text_body is needed'
        when from_address ~ '[[:cntrl:]]' or length(from_address) > 2000 then 'from_address must be one line'
        when reply_to ~ '[[:cntrl:]]' or length(reply_to) > 2000 then 'reply_to must be one line'
        when octet_length(to_jsonb(html)::text) + octet_length(coalesce(to_jsonb(text_body)::text, '')) > 10485760
          or octet_length(to_jsonb(text_body)::text) > 10485760 then 'the bodies are longer than 10 MiB'
        else 'headers ' || comms.headers_fault(coalesce(headers, '{}')) end;
    message_id bigint;
begin
    if fault is not null then
        raise exception using errcode = 'RQ003', message = 'bad email: ' || fault;
    end if;
    insert into comms.message (channel) values ('email') returning message.message_id into message_id;
    insert into comms.email_message (message_id, to_address, from_address, reply_to, subject, html, text_body, headers)
    values (message_id, to_address, from_address, reply_to, subject, html, text_body, coalesce(headers, '{}'));
    return message_id;
end $$;
