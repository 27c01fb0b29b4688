update bare t set status = 'SUCCESSFUL', result_json = d.result::jsonb, completed_at = now(), leased_until = null
from unnest(%s::bigint[], %s::bigint[], %s::text[]) as d(id, claim_no, result)
where t.id = d.id and t.claim_no = d.claim_no and t.worker_id = 'w1'
