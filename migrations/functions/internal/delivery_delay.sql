-- Doubling from base to cap, plus up to half of it at random. As a number: an interval would overflow.
create or replace function internal.delivery_delay(attempts integer, base interval, cap interval) returns interval
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp as $$
begin
    return least(extract(epoch from cap), extract(epoch from base) * power(2::double precision, least(greatest(attempts, 1) - 1, 60)))
        * (1 + random() / 2) * interval '1 second';
end $$;
