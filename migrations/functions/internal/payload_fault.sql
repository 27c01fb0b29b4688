-- null, or what is wrong with a document that jsonb accepts and Python's parser or a budget would not. The deep looks
-- are skipped where the text is too short to hide anything.
create or replace function internal.payload_fault(document jsonb, max_bytes integer, max_depth integer, max_digits integer)
    returns text
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
declare
    as_text text := document::text;
    size integer := octet_length(as_text);
begin
    if size > max_bytes then
        return format('is %s bytes long, the limit is %s', size, max_bytes);
    end if;
    if size > 2 * max_depth and length(as_text) - length(translate(as_text, '{[', '')) > max_depth
       and jsonb_path_exists(document, format('strict $.**{%s} ? (@.type() == "object" || @.type() == "array")', max_depth)::jsonpath)
    then
        return format('is nested deeper than %s', max_depth);
    end if;
    -- A point may stand in the middle: only half of the digits are sure to be in a row.
    if size > max_digits and as_text ~ format('[0-9]{%s}', least(max_digits / 2, 255))
       and exists (select from jsonb_path_query(document, 'strict $.** ? (@.type() == "number")') n
                   where length(translate(n::text, '-.', '')) > max_digits) then
        return format('holds a number of more than %s digits', max_digits);
    end if;
    return null;
end $$;
