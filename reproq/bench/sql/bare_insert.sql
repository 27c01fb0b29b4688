insert into bare (task_type, payload_json) values ('bench.noop', %s) returning id
