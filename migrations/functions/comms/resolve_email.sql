-- What a person found out about a send that ended as unknown: `sent` or `not_sent`. Answers `resolved` or why not.
create or replace function comms.resolve_email(send_email_task_id bigint, resolution text) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    outcome text;
begin
    if resolution is null or resolution not in ('sent', 'not_sent') then
        raise exception using errcode = 'RQ003', message = 'a resolution is ''sent'' or ''not_sent''';
    end if;
    perform from comms.send_email_task r where r.send_email_task_id = resolve_email.send_email_task_id for no key update;
    select e.outcome into outcome from comms.send_email_task_ended e where e.send_email_task_id = resolve_email.send_email_task_id;
    if outcome is distinct from 'unknown' then
        return coalesce('ended_as_' || outcome, 'not_ended');
    end if;
    insert into comms.send_email_task_resolved (send_email_task_id, resolution) values (send_email_task_id, resolution)
    on conflict do nothing;
    return case when found then 'resolved' else 'resolved_before' end;
end $$;
