select result_json from queues.task_runs where id = %s and completed_at is not null
