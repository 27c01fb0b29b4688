-- What a bucket holds now, its row locked by the caller.
create or replace function internal.refill(bucket queues.limits) returns double precision
    language plpgsql stable
    set search_path = pg_catalog, pg_temp as $$
begin
    return least(bucket.burst, coalesce(bucket.tokens, bucket.burst)
        + bucket.rate * greatest(0, extract(epoch from clock_timestamp() - coalesce(bucket.filled_at, clock_timestamp()))));
end $$;
