create or replace function queues.spec_hash(task_type text, queue_name text, payload jsonb) returns text
    language plpgsql immutable strict parallel safe
    set search_path = pg_catalog, pg_temp as $$
begin
    return encode(sha256(convert_to(jsonb_build_array(task_type, queue_name, payload)::text, 'UTF8')), 'hex');
end $$;
