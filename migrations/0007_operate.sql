-- What an operator does: routes for dead letters, the ordinary events where a queue asks for them.

-- The type of the task that is enqueued when a task of the queue has failed for good; a type's own wins.
alter table queues.queue_settings add dead_letter_type queues.task_type;
-- Set: this task tells of one that has failed for good. It is never routed on, so no route can be a circle.
alter table queues.task_runs add dead_letter_of bigint;

alter table queues.task_events drop constraint event_is_known;
alter table queues.task_events add constraint event_is_known check (event in (
    'created', 'claimed', 'started', 'succeeded', 'failed', 'retried', 'given_back', 'lease_expired',
    'cancelled', 'stopped', 'deleted', 'replayed', 'routed'));

-- Nobody else pays for what these say.
alter table internal.flow
    add audits boolean not null default false,  -- some queue asks for its ordinary events
    add routes boolean not null default false;  -- some queue or type has a route for its dead letters
