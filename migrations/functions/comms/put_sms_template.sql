-- Makes or replaces a template. {{name}} stands for a parameter.
create or replace function comms.put_sms_template(template_name text, body text, parameters text[] default null) returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    names text[] := comms.template_parameters(array[body], parameters);
begin
    if template_name is null or template_name !~ '^[A-Za-z0-9][A-Za-z0-9_.-]*$' or length(template_name) > 100 or body is null then
        raise exception using errcode = 'RQ003', message = 'a template needs a plain name and a body';
    end if;
    insert into comms.sms_template as t (template_name, body, parameters) values (template_name, body, names)
    on conflict on constraint sms_template_pkey do update
    set body = excluded.body, parameters = excluded.parameters, updated_at = clock_timestamp();
end $$;
