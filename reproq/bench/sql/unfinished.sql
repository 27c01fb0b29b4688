select count(*) from queues.task_runs where id <= %s and status in ('PENDING', 'RUNNING', 'RETRYING') and run_after <= now()
    and task_type like 'bench.%%'
