-- One batch of retention: looks at 5,000 rows on from where the last batch ended, in order of their ids, and deletes those
-- that have been final for longer than their queue keeps them, or deleted. Answers how many went; `rest` = there is more to
-- look at.
create or replace function internal.forget_finished(out gone bigint, out rest boolean)
    language plpgsql volatile
    set search_path = pg_catalog, pg_temp set jit = off set enable_seqscan = off as $$
declare
    seen bigint[];
    youngest timestamptz;
    after bigint := (select r.after_id from internal.retention r for update);
begin
    select array_agg(x.id), max(x.created_at) into seen, youngest
    from (select t.id, t.created_at from queues.task_runs t where t.id > after order by t.id limit 5000) x;
    with old as (
        select t.id
        from queues.task_runs t
        cross join queues.settings s
        left join queues.queue_settings q on q.queue_name = t.queue_name
        where t.id = any (seen) and t.leased_until is null
          and not (t.has_children and exists (select from queues.task_dependency d where d.parent_id = t.id))
          and coalesce(t.deleted_at, t.completed_at) < now() - case
              when t.deleted_at is not null or t.status = 'CANCELLED' then coalesce(q.keep_cancelled, s.keep_cancelled)
              when t.status = 'SUCCESSFUL' then coalesce(q.keep_successful, s.keep_successful)
              else coalesce(q.keep_failed, s.keep_failed) end
        order by t.id for update of t skip locked
    ), calls as (
        delete from queues.channel_call c using old where c.task_id = old.id
    )
    delete from queues.task_runs t using old where t.id = old.id;
    get diagnostics gone = row_count;
    -- Whatever is younger than the shortest time of all can't be due yet: begin anew.
    rest := cardinality(seen) = 5000 and youngest < now() - (
        select least(s.keep_successful, s.keep_cancelled, s.keep_failed, min(q.keep_successful), min(q.keep_cancelled), min(q.keep_failed))
        from queues.settings s left join queues.queue_settings q on true
        group by s.keep_successful, s.keep_cancelled, s.keep_failed);
    rest := coalesce(rest, false);
    update internal.retention set after_id = case when rest then seen[5000] else 0 end;
end $$;
