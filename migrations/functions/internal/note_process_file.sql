-- Notes a file as applied by this transaction: true = run it now, false = that was done before. A rival that is at the same
-- file is waited for. What was applied may not change any more.
create or replace function internal.note_process_file(source text, name text, sha256 text) returns boolean
    language plpgsql volatile security definer
    set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
    before text;
begin
    insert into internal.process_file (source, name, sha256) values (source, name, sha256) on conflict do nothing;
    if found then
        return true;
    end if;
    select f.sha256 into before from internal.process_file f
    where f.source = note_process_file.source and f.name = note_process_file.name;
    if before is distinct from note_process_file.sha256 then
        raise exception using errcode = 'RQ004', message = format('%s was changed after it had been applied to this database', name),
            hint = 'Put its text back, and write the change as a new numbered file.';
    end if;
    return false;
end $$;
