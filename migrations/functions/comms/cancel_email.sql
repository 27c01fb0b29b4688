-- `cancelled` it won't be sent · `too_late` an attempt is on its way, or the process has ended · `unknown` no such send of
-- yours.
create or replace function comms.cancel_email(send_email_task_id bigint) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    root comms.send_email_task;
    facts comms.process_facts;
begin
    select r.* into root from comms.send_email_task r
    where r.send_email_task_id = cancel_email.send_email_task_id and internal.may_touch(r.created_by) for no key update;
    if root.send_email_task_id is null then
        return 'unknown';
    end if;
    facts := comms.read_send_email_facts(root.send_email_task_id);
    if facts.has_ended or facts.has_succeeded or facts.has_started or facts.unknown_at is not null then
        return case when exists (
            select from comms.send_email_task_ended e
            where e.send_email_task_id = root.send_email_task_id and e.outcome = 'cancelled') then 'cancelled' else 'too_late' end;
    end if;
    insert into comms.send_email_task_ended (send_email_task_id, outcome, reason)
    values (root.send_email_task_id, 'cancelled', 'asked_for');
    perform comms.end_email_supervision(root);
    return 'cancelled';
end $$;
