delete from queues.task_runs
