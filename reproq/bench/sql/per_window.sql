select floor((extract(epoch from completed_at)::float8 - %s) / %s)::int as piece, count(*)::float8
from queues.task_runs where claim_no > 0 and completed_at is not null group by 1 order by 1
