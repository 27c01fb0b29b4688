-- What a db_function task does in the benchmark: one insert.
create schema bench_work;
create table bench_work.effect (id bigint generated always as identity primary key, n bigint, at timestamptz default now());
create function bench_work.insert_one(payload jsonb) returns jsonb language sql volatile security definer
    set search_path = pg_catalog, pg_temp
    as $$ insert into bench_work.effect (n) values ((payload ->> 'n')::bigint); select '{"success": true}'::jsonb $$;
select internal.allow_schema('bench_work');
