-- The names that stand in a template's texts, which must be those that it declares, if it declares any.
create or replace function comms.template_parameters(texts text[], declared text[]) returns text[]
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
declare
    used text[] := array(
        select distinct m[1] from unnest(texts) x, lateral regexp_matches(x, '[{][{] *([a-z_][a-z0-9_]*) *[}][}]', 'g') m order by 1);
    odd text := (select min(x) from unnest(texts) x where regexp_replace(x, '[{][{] *[a-z_][a-z0-9_]* *[}][}]', '', 'g') ~ '[{][{]|[}][}]');
begin
    if odd is not null then
        raise exception using errcode = 'RQ003', message = 'a template holds {{ or }} that is no parameter',
            hint = 'Write {{name}}: small letters, digits and _.';
    elsif declared is not null and not (declared <@ used and used <@ declared) then
        raise exception using errcode = 'RQ003',
            message = format('the template declares (%s) and uses (%s)', array_to_string(declared, ', '), array_to_string(used, ', ')),
            hint = 'Each parameter must be declared, and each declared one used.';
    end if;
    return used;
end $$;
