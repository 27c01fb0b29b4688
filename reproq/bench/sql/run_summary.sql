-- Only what a worker has run (background rows have never been claimed), up to the moment it was told to stop. The clock
-- starts with the first claim; a start before its claim is a fault of ours and is told.
select count(*), extract(epoch from min(claimed_at))::float8, extract(epoch from max(completed_at))::float8,
       count(*) filter (where status <> 'SUCCESSFUL' or attempt_count <> 1),
       count(*) filter (where started_at < claimed_at - interval '1 second')
from queues.task_runs
where claim_no > 0 and completed_at <= to_timestamp(%s)
