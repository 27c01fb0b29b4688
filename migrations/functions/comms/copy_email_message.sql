create or replace function comms.copy_email_message(message_id bigint) returns bigint
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    return (
        select comms.create_email_message(m.to_address, m.subject, m.html, m.text_body, m.from_address, m.reply_to, m.headers)
        from comms.email_message m where m.message_id = copy_email_message.message_id);
end $$;
