-- send_email with the texts of a template. They are filled in now: what is sent is what the template said at this moment.
create or replace function comms.send_email_from_template(
    to_address text, template_name text, parameters jsonb default '{}', from_address text default null,
    reply_to text default null, headers jsonb default '{}', scheduled_at timestamptz default now(),
    idempotency_key text default null, max_attempts integer default 6, queue_name text default null,
    on_unknown text default null) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    template comms.email_template;
begin
    select t.* into template from comms.email_template t where t.template_name = send_email_from_template.template_name;
    perform comms.check_parameters(template_name, template.parameters, parameters);
    return comms.send_email(
        to_address, comms.render(template.subject, parameters, false), comms.render(template.html, parameters, true),
        comms.render(template.text_body, parameters, false), from_address, reply_to, headers, scheduled_at, idempotency_key,
        max_attempts, queue_name, on_unknown);
end $$;
