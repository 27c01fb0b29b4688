select pg_total_relation_size('queues.task_runs')
