-- What the leader does once a minute. Its first look is at its own row, and shares it: a takeover waits until this call has
-- ended, and a call under an old term does nothing and answers null.
create or replace function queues.keep_house(term bigint) returns jsonb
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
    perform from queues.leader l where l.term = keep_house.term and l.until > clock_timestamp() for share;
    if not found then
        return null;
    end if;
    return jsonb_build_object('supervisors_resumed', comms.resume_supervisors());
end $$;
