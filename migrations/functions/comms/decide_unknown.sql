-- An attempt may have arrived, and nobody knows: what its provider allows, never a blind second send.
-- resend: the same body under the same key, which the provider remembers for 24 h · lookup: ask it for the message, for
-- 60 s · park: the process ends as unknown, for a person to resolve. A provider that can be asked is, whatever the send
-- prefers: on_unknown decides about what wasn't found.
create or replace function comms.decide_unknown(f comms.process_facts, used_up text) returns comms.decision
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp as $$
declare
    d comms.decision;
    was_looked_for boolean := coalesce(f.not_found_at >= f.unknown_at + interval '60 seconds', false);
    way text := case when f.resolves_by = 'lookup' and not (was_looked_for and f.on_unknown = 'resend') then 'lookup'
                     else coalesce(f.on_unknown, f.resolves_by, 'park') end;
    due timestamptz;
begin
    if way = 'resend' then
        due := greatest(f.unknown_at, f.last_failed_at) + greatest(
            comms.backoff(greatest(f.failures - f.lookups, 0) + f.unknowns, f.backoff_base, f.backoff_cap), f.retry_after);
        used_up := coalesce(used_up, f.permanent_kind,
                            case when comms.key_may_be_forgotten(f.first_started_at, due) then 'key_expired' end);
    elsif way = 'lookup' then
        due := f.unknown_at + f.check_base * 2 ^ least(f.lookups, 5);
        used_up := case when f.decisions >= f.run_limit then 'run_limit'
                        when was_looked_for then 'not_found'
                        when f.at >= f.unknown_at + f.patience then 'no_lookup_in_time' end;
    else
        used_up := 'answer_lost';
    end if;
    if used_up is not null then
        d.verdict := 'end';
        d.outcome := 'unknown';
        d.reason := used_up;
    elsif f.at < due then
        d.verdict := 'wait';
        d.next_check := due;
    else
        d.verdict := 'schedule';
        d.purpose := case way when 'lookup' then 'lookup' else 'send' end;
        d.next_check := f.at + f.check_base;
    end if;
    return d;
end $$;
