-- Who may call what. Functions are the only door: no role but the owner has a right on any table or sequence.
-- The global form only: `IN SCHEMA` would have no effect on what PUBLIC gets by default.
alter default privileges revoke execute on functions from public;
revoke execute on all functions in schema queues, internal from public;
revoke all on all tables in schema queues, internal from public;
revoke all on schema queues, internal from public;
revoke usage on type
    queues.task_type, queues.queue_name, queues.task_status, queues.priority, queues.attempts, queues.moment, queues.payload,
    queues.seconds, queues.uniqueness, queues.key, queues.trace from public;

grant usage on schema queues, internal to worker_service_user;
grant execute on function
    queues.claim, queues.start, queues.heartbeat, queues.finish, queues.give_back, queues.recall, queues.lie_down,
    queues.register_worker, queues.unregister_worker, queues.unserved, queues.nothing_left,
    queues.dequeue_next_available_task, queues.complete_task, queues.fail_task,
    internal.run_function, internal.run_task, internal.succeed, internal.outcome_of, internal.resolve_function, internal.payload_fault
    to worker_service_user;

grant usage on schema queues to reproq_app;
grant execute on function
    queues.enqueue, queues.enqueue_many, queues.enqueue_once, queues.cancel, queues.task_status
    to reproq_app;

grant usage on schema queues, internal to reproq_process_author;
grant execute on function queues.enqueue_system, internal.allow_schema to reproq_process_author;
