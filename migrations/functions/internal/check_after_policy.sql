-- What becomes of a task when one that it waits for doesn't succeed: named rightly, whether it waits for any or not.
create or replace function internal.check_after_policy(policy text) returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
begin
    if policy is null or policy not in ('succeeded', 'over') then
        raise exception using errcode = 'RQ003', message = format('after_policy %s is unknown', coalesce(quote_literal(left(policy, 60)), '(null)')),
            hint = 'It is ''succeeded'' (all must succeed, else the task is cancelled) or ''over'' (however they end).';
    end if;
end $$;
