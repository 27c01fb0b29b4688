-- `all`: the ordinary events of a queue (created, claimed, started, succeeded) are written down too, from the next
-- statement on. `unusual`: only what is out of the ordinary, as without a setting.
create or replace function queues.audit_queue(queue_name text, audit text) returns text
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    perform internal.check_enqueue('x', queue_name, now(), 0, null, null, null, null, null, null, null);
    if audit is null or audit not in ('unusual', 'all') then
        raise exception using errcode = 'RQ003', message = format('audit %s is unknown', coalesce(quote_literal(left(audit, 60)), '(null)')),
            hint = 'It is ''unusual'' or ''all''.';
    end if;
    perform from internal.flow for update;  -- one at a time: the flag must not miss what another one sets
    insert into queues.queue_settings as s (queue_name, audit) values (queue_name, audit)
    on conflict on constraint queue_settings_pkey do update set audit = excluded.audit, updated_at = now();
    update internal.flow f set audits = x.some
    from (select exists (select from queues.queue_settings s where s.audit = 'all') as some) x where f.audits <> x.some;
    return audit;
end $$;
