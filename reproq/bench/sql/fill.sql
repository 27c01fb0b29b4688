-- Background rows, straight into the table: they are there to be in the way.
insert into queues.task_runs (task_type, queue_name, status, priority, run_after, payload_json, spec_hash, result_json,
                              completed_at)
select %(type)s, 'default', (%(status)s::text)::queues.task_status, %(priority)s, now() + %(delay_s)s * interval '1 second',
       jsonb_build_object('n', g), encode(sha256(g::text::bytea), 'hex'),
       case when %(status)s::text = 'SUCCESSFUL' then jsonb_build_object('n', g) end,
       case when %(status)s::text = 'SUCCESSFUL' then now() end
from generate_series(1, %(count)s) g
