-- What benches that were killed have left: those whose session is gone.
select distinct substring(name from '^reproq_bench_[0-9a-f]+_') as prefix
from (select datname::text as name from pg_database union all select rolname::text from pg_roles) made
where name ~ '^reproq_bench_[0-9a-f]+_'
  and substring(name from '^reproq_bench_[0-9a-f]+_') not in (
      select application_name from pg_stat_activity where application_name is not null)
