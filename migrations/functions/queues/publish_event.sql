-- An event, in the caller's transaction: sinks get it if that commits. Answers its id, the one that receivers see.
-- `ordered`: the events of a subject reach each sink in the order in which their transactions committed. For that, whoever
-- publishes waits until other open transactions that published about the same subject have ended; two that publish about
-- the same two subjects the other way round deadlock, and PostgreSQL ends one of them.
create or replace function queues.publish_event(type text, subject text default null, data jsonb default '{}', ordered boolean default true)
    returns uuid
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    fault text;
begin
    if type is null or type !~ '^[A-Za-z0-9][A-Za-z0-9_.:/-]*$' or octet_length(type) > 200 then
        raise exception using errcode = 'RQ001',
            message = format('bad event type %s', coalesce(quote_literal(regexp_replace(left(type, 60), '[[:cntrl:]]', '?', 'g')), '(null)')),
            hint = 'A type is 1 to 200 letters, digits, "_", ".", ":", "/", "-", and starts with a letter or digit: shop.order.paid.v1';
    elsif starts_with(lower(type), 'reproq.') then
        raise exception using errcode = 'RQ001', message = 'types that begin with reproq. are the engine''s own',
            hint = 'Begin it with a name of yours: shop.order.paid.v1';
    elsif subject ~ '[[:cntrl:]]' or length(subject) not between 1 and 500 then
        raise exception using errcode = 'RQ003', message = 'a subject is one line of 1 to 500 characters',
            hint = 'Leave it null for an event about nothing in particular.';
    end if;
    if data is not null then
        select internal.payload_fault(data, s.max_payload_bytes, s.max_depth, s.max_digits) into fault from queues.settings s;
        if fault is not null then
            raise exception using errcode = 'RQ002', message = 'the data ' || fault,
                hint = 'Store large data elsewhere and pass a reference; long numbers travel as strings.';
        end if;
    end if;
    return internal.add_outbox_event(type, subject, data, coalesce(ordered, true) and subject is not null);
end $$;
