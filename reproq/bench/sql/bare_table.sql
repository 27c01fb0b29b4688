-- The floor's table: the same columns, one key and one index, no CHECK, no domain, no trigger, no second thought.
create table bare (like queues.task_runs including defaults including identity, primary key (id));
alter table bare alter spec_hash set default 'none',
    alter task_type type text collate "C", alter queue_name type text collate "C", alter priority type integer,
    alter run_after type timestamptz, alter payload_json type jsonb, alter idempotency_key type text,
    alter unique_among type text, alter max_attempts type integer, alter timeout_s type double precision,
    alter limit_key type text, alter trace type text;
create index bare_claim on bare (queue_name, priority desc, run_after, id) where status = 'PENDING';
