select count(*) from queues.task_runs where status = 'RUNNING' and started_at is not null
