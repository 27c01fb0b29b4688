with c as materialized (
    select id from bare where queue_name = 'default' and status = 'PENDING' and run_after <= now()
    order by priority desc, run_after, id limit %s for update skip locked)
update bare t set status = 'RUNNING', worker_id = 'w1', leased_until = now() + interval '30 seconds', claimed_at = now(),
    claim_no = t.claim_no + 1, attempt_count = t.attempt_count + 1
from c where t.id = c.id returning t.id, t.claim_no, t.payload_json
