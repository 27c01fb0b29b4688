select count(*) from queues.task_runs
where claim_no > 0 and completed_at > to_timestamp(%s) and completed_at <= to_timestamp(%s)
