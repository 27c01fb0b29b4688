-- 100 MB of WAL that say nothing.
select pg_logical_emit_message(false, 'reproq bench', repeat('x', 100000000))
