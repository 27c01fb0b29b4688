-- send_sms with the text of a template. It is filled in now: what is sent is what the template said at this moment.
create or replace function comms.send_sms_from_template(
    to_number text, template_name text, parameters jsonb default '{}', from_number text default null,
    scheduled_at timestamptz default now(), idempotency_key text default null, max_attempts integer default 6,
    queue_name text default null, on_unknown text default null) returns bigint
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    template comms.sms_template;
begin
    select t.* into template from comms.sms_template t where t.template_name = send_sms_from_template.template_name;
    perform comms.check_parameters(template_name, template.parameters, parameters);
    return comms.send_sms(to_number, comms.render(template.body, parameters, false), from_number, scheduled_at, idempotency_key,
                          max_attempts, queue_name, on_unknown);
end $$;
