-- A task with a key is admitted when its transaction commits, not before: what an open transaction has enqueued holds neither
-- its key nor its key's bucket, however long it stays open. The body is a file of its own.
create function internal.admit_at_commit() returns trigger language plpgsql security definer
    set search_path = pg_catalog, pg_temp as 'begin return null; end';
create constraint trigger task_runs_admit after insert on queues.task_runs deferrable initially deferred
    for each row when (new.limit_key is not null and new.waiting_for > 0)
    execute function internal.admit_at_commit();

-- Tasks with a key that fall due are found by their time; where the walk along all other keys goes on is remembered.
create index task_runs_parked_due on queues.task_runs (run_after)
    where limit_key is not null and limit_slot is null and status in ('PENDING', 'RETRYING') and deleted_at is null;
alter table internal.flow add swept_to text not null default '';

-- A child that is replayed before its parents are over waits for them again.
create index task_dependency_child on queues.task_dependency (child_id);
