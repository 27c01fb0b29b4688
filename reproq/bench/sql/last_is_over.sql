select coalesce((select completed_at is not null from queues.task_runs where id = %s), false)
