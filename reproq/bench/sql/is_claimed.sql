select coalesce((select claim_no > 0 from queues.task_runs where id = %s), true)
