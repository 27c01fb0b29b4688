-- A claim and a finish each write a version of the row. With half of each page left free they find room beside the old one, in a
-- page that is in memory and in the WAL already: see docs/decisions/040. Pages that are full already stay as they are.
alter table queues.task_runs set (fillfactor = 50);
