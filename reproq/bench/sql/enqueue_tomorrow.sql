select queues.enqueue('bench.noop', '{"n": 1}'::jsonb, now() + interval '1 day')
