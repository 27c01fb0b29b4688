-- Rows that were claimed and not run, or whose child was stopped in the middle (`started`), go back uncounted. Started ones
-- only ten times, and never a task that may run once: those end `interrupted`. The worker knows best what has started: its
-- word goes before the row's. Answers as heartbeat does, `kept` = it was mine and went back.
create or replace function queues.give_back(
    worker_id text, ids bigint[], claim_nos bigint[], started boolean[] default null)
    returns table (id bigint, claim_no bigint, answer text)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp
    set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    asked record;
    task queues.task_runs;
    begun boolean;
    most integer := (select s.max_give_backs from queues.settings s);
begin
    perform internal.durable_commit();
    for asked in
        select a.id, a.claim_no, a.started
        from unnest(give_back.ids, give_back.claim_nos, give_back.started) as a(id, claim_no, started) order by a.id
    loop
        id := asked.id;
        claim_no := asked.claim_no;
        select t.* into task from queues.task_runs t
        where t.id = asked.id and t.claim_no = asked.claim_no and t.worker_id = give_back.worker_id for update;
        begun := coalesce(asked.started, task.started_at is not null);
        if task.id is null or task.leased_until is null then
            answer := 'lost';
        elsif task.status = 'CANCELLED' then
            update queues.task_runs t set leased_until = null, updated_at = clock_timestamp() where t.id = task.id;
            answer := 'cancelled';
        elsif begun and (task.max_attempts = 1 or task.give_backs + 1 >= most or task.deleted_at is not null) then
            perform internal.end_failed(
                task, jsonb_build_object('kind', 'interrupted', 'final', true, 'error', format(
                    'its worker was stopped in the middle of attempt %s of %s (%s interruptions)',
                    task.attempt_count, task.max_attempts, task.give_backs + 1)), now(), true);
            answer := 'kept';
        else
            perform internal.put_back(task, task.run_after, case when begun then
                '{"give_backs": 1, "started": true, "reason": "its worker was stopped"}'::jsonb end, false);
            answer := 'kept';
        end if;
        return next;
    end loop;
end $$;
