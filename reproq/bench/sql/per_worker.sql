select worker_id, count(*) from queues.task_runs where claim_no > 0 and completed_at is not null group by 1 order by 2
