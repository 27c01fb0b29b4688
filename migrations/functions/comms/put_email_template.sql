-- Makes or replaces a template. {{name}} stands for a parameter; in html its value is escaped.
create or replace function comms.put_email_template(
    template_name text, subject text, html text default null, text_body text default null, parameters text[] default null)
    returns void
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    names text[] := comms.template_parameters(array[subject, html, text_body], parameters);
begin
    if template_name is null or template_name !~ '^[A-Za-z0-9][A-Za-z0-9_.-]*$' or length(template_name) > 100
       or subject is null or subject ~ '[[:cntrl:]]' or length(subject) > 2000 or (html is null and text_body is null) then
        raise exception using errcode = 'RQ003', message = 'a template needs a plain name, a subject of one line, and html or text_body';
    end if;
    insert into comms.email_template as t (template_name, subject, html, text_body, parameters)
    values (template_name, subject, html, text_body, names)
    on conflict on constraint email_template_pkey do update
    set subject = excluded.subject, html = excluded.html, text_body = excluded.text_body, parameters = excluded.parameters,
        updated_at = clock_timestamp();
end $$;
