-- Which files of your own processes were applied here (reproq migrate --dir), by the folder they came from.
create table internal.process_file (
    source     text not null constraint source_has_a_length check (length(source) between 1 and 200),
    name       text not null constraint name_has_a_length check (length(name) between 1 and 200),
    sha256     text not null,
    applied_by text not null default session_user,
    applied_at timestamptz not null default now(),
    primary key (source, name)
);
