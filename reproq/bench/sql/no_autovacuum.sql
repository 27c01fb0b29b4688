alter table queues.task_runs set (autovacuum_enabled = false)
