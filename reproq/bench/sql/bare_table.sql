-- The floor's table: the same columns, one key and one index, no CHECK, no trigger, no second thought.
create table bare (like queues.task_runs including defaults including identity, primary key (id));
alter table bare alter spec_hash set default 'none';
create index bare_claim on bare (queue_name, priority desc, run_after, id) where status = 'PENDING';
