select extract(epoch from completed_at)::float8 from queues.task_runs where id = %s and completed_at is not null
