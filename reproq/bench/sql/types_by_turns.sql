-- As if tasks of a thousand types (reproq/bench/app_many.py) had come one of each, again and again.
update queues.task_runs set task_type = 'bench.many.t' || id % 1000
