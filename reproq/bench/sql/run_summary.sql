-- Only what a worker has run (background rows have never been claimed), up to the moment it was told to stop.
select count(*), extract(epoch from min(started_at))::float8, extract(epoch from max(completed_at))::float8,
       count(*) filter (where status <> 'SUCCESSFUL' or attempt_count <> 1)
from queues.task_runs
where claim_no > 0 and completed_at <= to_timestamp(%s)
