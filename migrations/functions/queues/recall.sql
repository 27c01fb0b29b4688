-- After a claim whose answer was lost: what is leased to this worker and unknown to it goes back, uncounted. Nothing of it
-- can have begun. Answers how many.
create or replace function queues.recall(worker_id text, known_ids bigint[], known_claim_nos bigint[]) returns integer
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off as $$
#variable_conflict use_variable
declare
    task queues.task_runs;
    recalled integer := 0;
begin
    perform internal.durable_commit();
    for task in
        select t.* from queues.task_runs t
        where t.leased_until is not null and t.worker_id = recall.worker_id
          and (t.id, t.claim_no) not in (select k.id, k.claim_no from unnest(known_ids, known_claim_nos) as k(id, claim_no))
        order by t.id for update skip locked
    loop
        if task.status = 'RUNNING' then
            perform internal.put_back(task, task.run_after, null, false);
        else
            update queues.task_runs t set leased_until = null, updated_at = clock_timestamp() where t.id = task.id;
        end if;
        recalled := recalled + 1;
    end loop;
    return recalled;
end $$;
