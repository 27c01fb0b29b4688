-- What is wrong with a sink, or null. The address isn't repeated: it may hold a token.
create or replace function internal.sink_fault(
    url text, mode text, type_prefixes text[], allow_private boolean, max_attempts integer, max_age interval, timeout interval,
    batch_size integer, backoff_base interval, backoff_cap interval) returns text
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    return case
        when url is null then 'a new sink needs an address: https://…'
        when url ~ '^https?://[^/?#]*@' then 'no user or password in the address: messages are signed instead'
        when url !~ '^https?://[^[:space:][:cntrl:]@/?#]+([/?][^[:space:][:cntrl:]#]*)?$' or length(url) > 2000
            then 'its address isn''t one of http: https://host/path, up to 2000 characters, without a fragment'
        when url not like 'https:%' and not allow_private then 'http:// without TLS is for private addresses only; write https://, or allow private ones'
        when mode not in ('structured', 'binary', 'batched') then 'the mode is structured, binary or batched'
        when cardinality(type_prefixes) > 100 or array_position(type_prefixes, null) is not null
             or exists (select from unnest(type_prefixes) p where length(p) > 200) then 'up to 100 type prefixes of up to 200 characters'
        when max_attempts not between 1 and 1000 then 'max_attempts lies within 1 and 1000'
        when max_age not between interval '1 second' and interval '90 days' then 'max_age lies within 1 second and 90 days'
        when timeout not between interval '0.1 seconds' and interval '60 seconds' then 'the time-out lies within 0.1 and 60 seconds'
        when batch_size not between 1 and 1000 then 'batch_size lies within 1 and 1000'
        when backoff_base <= interval '0' or backoff_cap <= interval '0' or backoff_cap > interval '7 days'
             or backoff_base > interval '7 days' then 'the back-off lies within 0 and 7 days' end;
end $$;
