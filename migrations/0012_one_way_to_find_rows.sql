-- No statement is planned by the size of the table any more: see docs/decisions/014.
drop function if exists internal.plan_by_size();
