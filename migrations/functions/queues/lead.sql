-- Makes a worker the leader if there is none, or keeps it the leader, by the database's clock alone. Answers its term (null
-- if another leads), and for how long the row says so. The term grows with every change of leader, and also when the same
-- one comes back too late.
create or replace function queues.lead(worker_id text, lease interval, out term bigint, out left_s double precision)
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
    if lead.worker_id is null or lead.worker_id not like '_%/_%/_%'
       or lead.lease not between interval '1 second' and interval '1 day' then
        raise exception using errcode = 'RQ003', message = 'a leader needs a worker id and a lease of 1 s to 1 day';
    end if;
    update queues.leader l
    set term = case when l.worker_id = lead.worker_id and l.until > clock_timestamp() then l.term else l.term + 1 end,
        worker_id = lead.worker_id, until = clock_timestamp() + lead.lease
    where l.until <= clock_timestamp() or l.worker_id = lead.worker_id
    returning l.term, extract(epoch from lead.lease) into lead.term, lead.left_s;
    if lead.term is null then
        select extract(epoch from l.until - clock_timestamp()) into lead.left_s from queues.leader l;
    end if;
end $$;
