\set n :n + 1
\set id :client_id + 1 + 4 * :n
begin;
insert into bench_work.effect (n) values (:id);
update bare set status = 'SUCCESSFUL', result_json = '{"n": 1}', completed_at = now(), leased_until = null where id = :id and claim_no = 1 and worker_id = 'w1';
commit;
