-- Puts values in the places of {{names}}. What is put in is never looked at again, so it can't name another place; with
-- `escaped` it can't be HTML either. A name without a value is an error, never an empty text.
create or replace function comms.render(template text, parameters jsonb, escaped boolean) returns text
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
declare
    place constant text := '[{][{] *([a-z_][a-z0-9_]*) *[}][}]';
    pieces text[] := regexp_split_to_array(template, place);
    names text[] := array(select m[1] from regexp_matches(template, place, 'g') m);
    value text;
    rendered text := pieces[1];
begin
    for i in 1 .. cardinality(names) loop
        value := parameters ->> names[i];
        if value is null then
            raise exception using errcode = 'RQ003', message = format('the template needs a value for %s', quote_literal(names[i]));
        end if;
        if escaped then
            value := replace(replace(replace(replace(replace(value, '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'), '''', '&#39;');
        end if;
        rendered := rendered || value || pieces[i + 1];
    end loop;
    return rendered;
end $$;
