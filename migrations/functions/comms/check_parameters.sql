-- Every parameter of a template is given, as a text, a number or a truth value, and nothing else is.
create or replace function comms.check_parameters(template_name text, wanted text[], given jsonb) returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
declare
    problem text;
begin
    if wanted is null then
        raise exception using errcode = 'RQ003', message = format('no template %s', quote_literal(left(template_name, 100)));
    elsif given is null or jsonb_typeof(given) <> 'object' then
        raise exception using errcode = 'RQ003', message = 'the parameters of a template are an object: {"name": "value"}';
    end if;
    select coalesce(
        (select min(format('the value of %s is missing', quote_literal(w))) from unnest(wanted) w
         where coalesce(jsonb_typeof(given -> w), 'null') = 'null'),
        (select min(format('it has no parameter %s', quote_literal(left(k, 60)))) from jsonb_object_keys(given) k where k <> all (wanted)),
        (select min(format('the value of %s must be a text, a number, true or false', quote_literal(w))) from unnest(wanted) w
         where jsonb_typeof(given -> w) in ('object', 'array')))
    into problem;
    if problem is not null then
        raise exception using errcode = 'RQ003', message = format('template %s: %s', quote_literal(template_name), problem),
            hint = format('Its parameters: %s.', array_to_string(wanted, ', '));
    end if;
end $$;
