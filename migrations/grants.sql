-- Who may call what. Functions are the only door: no role but the owner has a right on any table or sequence.
-- The global form only: `IN SCHEMA` would have no effect on what PUBLIC gets by default.
alter default privileges revoke execute on functions from public;
alter default privileges revoke usage on types from public;
revoke execute on all functions in schema queues, internal from public;
revoke all on all tables in schema queues, internal from public;
revoke all on schema queues, internal from public;
-- Every type: a role that may use one can stand in the way of its change.
do $types$
declare
    one regtype;
begin
    for one in
        select t.oid from pg_type t join pg_namespace n on n.oid = t.typnamespace
        where n.nspname in ('queues', 'internal', 'comms') and t.typcategory <> 'A' and t.typtype <> 'm'
    loop
        execute format('revoke usage on type %s from public', one);
    end loop;
end $types$;

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

grant usage on schema queues to reproq_reader;
grant select on
    queues.tasks_redacted, queues.dead_letter_redacted, queues.events_redacted, queues.errors_redacted,
    queues.workers_redacted, queues.queues_redacted
    to reproq_reader;

grant usage on schema queues, internal to reproq_process_author;
grant execute on function queues.enqueue_system, internal.allow_schema to reproq_process_author;
