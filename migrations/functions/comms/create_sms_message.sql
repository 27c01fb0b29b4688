-- Keeps a message as it will be sent. Sending is another step: kickoff_send_sms_task, or both at once with send_sms.
create or replace function comms.create_sms_message(to_number text, body text, from_number text default null) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    fault text := case
        when to_number is null or to_number !~ '^[+]?[0-9]+$' or length(to_number) not between 3 and 16
            then 'to_number must be an international number: +4917012345678'
        when body is null or length(body) not between 1 and 1600 then 'body must have 1 to 1600 characters'
        when from_number ~ '[[:cntrl:]]' or length(from_number) > 100 then 'from_number must be a number or a sender''s name' end;
    message_id bigint;
begin
    if fault is not null then
        raise exception using errcode = 'RQ003', message = 'bad sms: ' || fault;
    end if;
    insert into comms.message (channel) values ('sms') returning message.message_id into message_id;
    insert into comms.sms_message (message_id, to_number, from_number, body) values (message_id, to_number, from_number, body);
    return message_id;
end $$;
