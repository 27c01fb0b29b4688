-- Names to choose from, for a shell's completion: of queues, of task types, of the caller's schedules. At most 200, and
-- plain ones only: workers say themselves which queues they serve, and what is completed stands in a shell's command line.
create or replace function queues.names(p_kind text, p_start text default '') returns setof text
    language plpgsql stable security definer
    set search_path = pg_catalog, pg_temp as $$
begin
    if p_kind is null or p_kind not in ('queue', 'type', 'schedule') then
        raise exception using errcode = 'RQ003', message = 'p_kind is queue, type or schedule';
    end if;
    return query
    select n.name from (
        select q as name from internal.queues_with_work(null) q where p_kind = 'queue'
        union select s.queue_name::text from queues.queue_settings s where p_kind = 'queue'
        union select unnest(w.queues) from queues.workers w where p_kind = 'queue'
        union select y.task_type::text from queues.task_types y where p_kind = 'type'
        union select h.schedule_name from queues.schedules h where p_kind = 'schedule' and internal.may_touch(h.created_by)) n
    where n.name ~ '^[A-Za-z0-9][A-Za-z0-9_.:-]*$' and starts_with(n.name, coalesce(p_start, '')) order by n.name limit 200;
end $$;
