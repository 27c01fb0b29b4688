-- A supervision tree: process newsletter.edition starts one comms.send_email for each recipient, waits until all of them have
-- ended, at most until its deadline, and ends. What a child does when a send fails is the child's own affair.

create schema newsletter;

create table newsletter.edition_task (
    edition_task_id bigint generated always as identity primary key,
    subject       text not null unique,
    recipients    text[] not null,
    deadline      timestamptz not null,
    created_at    timestamptz not null default clock_timestamp()
);
create table newsletter.edition_task_child_started (
    send_email_task_id bigint primary key,
    edition_task_id      bigint not null references newsletter.edition_task,
    recipient          text not null,
    created_at         timestamptz not null default clock_timestamp(),
    unique (edition_task_id, recipient)
);
create table newsletter.edition_task_ended (
    edition_task_id bigint primary key references newsletter.edition_task,
    outcome       text not null check (outcome in ('succeeded', 'failed', 'deadline')),
    reason        text,
    created_at    timestamptz not null default clock_timestamp()
);
create trigger facts_stay before update or delete or truncate on newsletter.edition_task
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on newsletter.edition_task_child_started
    for each statement execute function internal.facts_stay();
create trigger facts_stay before update or delete or truncate on newsletter.edition_task_ended
    for each statement execute function internal.facts_stay();

-- How many children there are in each state: their facts, asked of the process that they belong to.
create function newsletter.count_children(task_id bigint, out started integer, out ended integer, out succeeded integer)
    language sql stable set search_path = pg_catalog, pg_temp as $$
    select count(*), count(c.outcome), count(*) filter (where c.outcome = 'succeeded')
    from (select comms.outcome_of_send_email_task(f.send_email_task_id) as outcome
          from newsletter.edition_task_child_started f where f.edition_task_id = task_id) c
$$;

create function newsletter.edition_supervisor(payload jsonb) returns jsonb
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    task_id bigint := comms.id_of(payload -> 'edition_task_id');
    ids jsonb := jsonb_build_object('edition_task_id', task_id);
    root newsletter.edition_task;
    children record;
    has_ended boolean;
    outcome text;
    next_check timestamptz;
begin
    -- INPUT
    select r.* into root from newsletter.edition_task r where r.edition_task_id = task_id for no key update;
    if root.edition_task_id is null then
        return comms.refused('the payload names no edition_task_id that exists');
    end if;
    children := newsletter.count_children(task_id);
    has_ended := exists (select from newsletter.edition_task_ended f where f.edition_task_id = task_id);

    -- COMPUTE
    if has_ended then
        null;
    elsif children.ended = cardinality(root.recipients) then
        outcome := case when children.succeeded = children.ended then 'succeeded' else 'failed' end;
    elsif now() >= root.deadline then
        outcome := 'deadline';
    else  -- half of the time left, at least a second: looks become more frequent as the deadline comes near
        next_check := now() + comms.halving_delay(root.deadline - now(), '1 second');
    end if;

    -- OUTPUT
    if next_check is not null and children.started = 0 then
        insert into newsletter.edition_task_child_started (edition_task_id, recipient, send_email_task_id)
        select task_id, r.address, comms.send_email(r.address, root.subject, text_body => 'All the news.')
        from (select distinct unnest(root.recipients) as address) r;
    end if;
    if outcome is not null then
        insert into newsletter.edition_task_ended (edition_task_id, outcome, reason)
        values (task_id, outcome, format('%s of %s were sent', children.succeeded, cardinality(root.recipients)));
    end if;
    if next_check is null then
        perform queues.unsupervise('newsletter.edition_supervisor', ids);
    else
        perform queues.supervise('newsletter.edition_supervisor', ids, next_check);
    end if;
    return jsonb_build_object('success', true, 'payload', jsonb_build_object('outcome', outcome, 'next_check', next_check));
end $$;

create function newsletter.kickoff_edition_task(subject text, recipients text[], deadline timestamptz) returns bigint
    language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    task_id bigint;
begin
    insert into newsletter.edition_task (subject, recipients, deadline)
    select subject, array_agg(distinct r), deadline from unnest(recipients) r
    on conflict do nothing returning edition_task_id into task_id;
    if task_id is not null then
        perform queues.supervise('newsletter.edition_supervisor', jsonb_build_object('edition_task_id', task_id));
        return task_id;
    end if;
    return (select r.edition_task_id from newsletter.edition_task r where r.subject = kickoff_edition_task.subject);
end $$;

revoke execute on all functions in schema newsletter from public;
grant usage on schema newsletter to worker_service_user, reproq_app;
grant execute on function newsletter.edition_supervisor to worker_service_user;
grant execute on function newsletter.kickoff_edition_task to reproq_app;
select internal.allow_schema('newsletter');
