insert into bare (task_type, payload_json, status, worker_id, claim_no, attempt_count, claimed_at, leased_until)
select 'bench.noop', jsonb_build_object('n', g), 'RUNNING', 'w1', 1, 1, now(), now() + interval '10 minutes'
from generate_series(1, %s) g
