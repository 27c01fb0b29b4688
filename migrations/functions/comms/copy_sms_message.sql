create or replace function comms.copy_sms_message(message_id bigint) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select comms.create_sms_message(m.to_number, m.body, m.from_number)
        from comms.sms_message m where m.message_id = copy_sms_message.message_id);
end $$;
