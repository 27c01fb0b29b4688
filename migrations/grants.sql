-- Who may call what. Functions are the only door: no role but the owner has a right on any table or sequence.
-- The global form only: `IN SCHEMA` would have no effect on what PUBLIC gets by default.
alter default privileges revoke execute on functions from public;
alter default privileges revoke usage on types from public;
revoke execute on all functions in schema queues, internal, comms from public;
revoke all on all tables in schema queues, internal, comms from public;
revoke all on schema queues, internal, comms from public;
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

grant usage on schema queues, internal, comms to worker_service_user;
grant execute on function
    queues.claim, queues.start, queues.heartbeat, queues.finish, queues.give_back, queues.recall, queues.lie_down,
    queues.register_worker, queues.unregister_worker, queues.lead, queues.keep_house, queues.unserved, queues.nothing_left, queues.measure,
    queues.dequeue_next_available_task, queues.complete_task, queues.fail_task,
    queues.channel_state, queues.channel_begin, queues.channel_result, queues.channel_error,
    internal.run_function, internal.call_function, internal.run_task, internal.clean_session, internal.succeed, internal.outcome_of,
    internal.resolve_function, internal.payload_fault, internal.begin_channel, internal.channel_succeeded,
    internal.channel_failed, internal.for_handlers, internal.execution_token,
    comms.send_email_supervisor, comms.get_email_payload, comms.record_email_success, comms.record_email_failure,
    comms.send_sms_supervisor, comms.get_sms_payload, comms.record_sms_success, comms.record_sms_failure
    to worker_service_user;

grant usage on schema queues, comms to reproq_app;
grant execute on function
    queues.enqueue, queues.enqueue_many, queues.enqueue_once, queues.cancel, queues.task_status,
    queues.watch_tasks, queues.use_token, queues.serves_code,
    queues.cancel_many, queues.count_chosen, queues.task_life,
    queues.put_schedule, queues.drop_schedule, queues.enable_schedule, queues.run_schedule, queues.schedule_slots, queues.list_schedules,
    queues.cron_next,
    queues.cron_fault,
    queues.publish_event,
    comms.send_email, comms.send_email_from_template, comms.create_email_message, comms.kickoff_send_email_task,
    comms.send_email_status, comms.cancel_email,
    comms.send_sms, comms.send_sms_from_template, comms.create_sms_message, comms.kickoff_send_sms_task,
    comms.send_sms_status, comms.cancel_sms
    to reproq_app;

grant usage on schema queues to reproq_reader;
grant select on
    queues.tasks_redacted, queues.dead_letter_redacted, queues.events_redacted, queues.errors_redacted,
    queues.workers_redacted, queues.queues_redacted,
    queues.outbox_redacted, queues.deliveries_redacted, queues.sinks_redacted
    to reproq_reader;
grant execute on function queues.overview to reproq_reader, worker_service_user;
grant execute on function queues.names to reproq_reader, worker_service_user, reproq_app;
grant execute on function queues.measure to reproq_reader;

grant usage on schema queues to reproq_dispatcher;
grant execute on function
    queues.dispatch_sinks, queues.claim_deliveries, queues.finish_deliveries, queues.rest_dispatcher
    to reproq_dispatcher;

grant usage on schema queues, internal, comms to reproq_process_author;
grant execute on function
    queues.is_execution, queues.enqueue_system, queues.supervise, queues.unsupervise, queues.is_over, queues.cancel, queues.task_status,
    queues.publish_event,
    internal.allow_schema, internal.facts_stay, internal.note_process_file,
    comms.growing_delay, comms.halving_delay, comms.backoff, comms.id_of, comms.refused,
    comms.put_email_template, comms.put_sms_template,
    comms.send_email, comms.send_email_from_template, comms.send_email_status, comms.cancel_email,
    comms.has_send_email_task_succeeded, comms.count_send_email_task_failures, comms.count_send_email_task_scheduled,
    comms.outcome_of_send_email_task,
    comms.send_sms, comms.send_sms_from_template, comms.send_sms_status, comms.cancel_sms,
    comms.has_send_sms_task_succeeded, comms.count_send_sms_task_failures, comms.count_send_sms_task_scheduled,
    comms.outcome_of_send_sms_task
    to reproq_process_author;
