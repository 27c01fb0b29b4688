insert into bare (task_type, payload_json) select 'bench.noop', jsonb_build_object('n', g) from generate_series(1, %s) g
