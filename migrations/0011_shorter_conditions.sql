-- A trigger's condition is read from its text again by every statement: only what keeps others out stays in it, the rest is for
-- the functions, which tasks without a key or children never call.
drop trigger task_runs_leave_slot on queues.task_runs;
create trigger task_runs_leave_slot before update on queues.task_runs
    for each row when (new.limit_key is not null) execute function internal.leave_slot();
drop trigger task_runs_note_end on queues.task_runs;
create trigger task_runs_note_end after update on queues.task_runs
    for each row when (old.limit_slot is not null or new.has_children) execute function internal.note_end();
