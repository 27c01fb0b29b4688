"""The same migration as text for `psql -f`, and the statements that both ways share."""

from reproq.db.migration import ledger
from reproq.db.migration.files import SCHEMAS, Migrations, SqlFile

LOCK = "select pg_catalog.pg_advisory_xact_lock(7238244201917)"  # any fixed number; locks are per database
# First in each transaction: whoever may create in `public` must not run anything as the administrator who migrates.
SEARCH_PATH = "set local search_path = pg_catalog, pg_temp"
_NAMES = ", ".join(f"'{schema}'" for schema in SCHEMAS)
FOREIGN = f"""
select n.nspname::text from pg_catalog.pg_namespace n where n.nspname in ({_NAMES}) and (
    exists (select from pg_catalog.pg_class c where c.relnamespace = n.oid)
    or exists (select from pg_catalog.pg_proc p where p.pronamespace = n.oid)
    or exists (select from pg_catalog.pg_type t where t.typnamespace = n.oid)) order by 1"""


def roles(files: Migrations) -> str:
    """Return what an administrator runs; psql's variable `login` names who is to migrate."""
    return f"""-- Reproq {files.schema_version}: for an administrator, connected to the database that Reproq is to use:
--     psql -v login=NAME -f THIS_FILE "$DATABASE_URL"
-- NAME may then run `reproq migrate`. Without -v login=NAME only the roles are made.
\\set ON_ERROR_STOP on
begin;
{SEARCH_PATH};
{files.roles.text.strip()}
grant create on database :"DBNAME" to {files.owner};
\\if :{{?login}}
grant {files.owner} to :"login";
\\endif
commit;
"""


def everything(files: Migrations) -> str:
    """Return roles, schema, functions and grants; safe to run again, also over an older version."""
    parts = [
        f"-- Reproq's schema, version {files.schema_version}, for `psql -f` as a superuser, or as a login with"
        "\n-- CREATEROLE that owns the database. Safe to run again, and over an older version.",
        "\\set ON_ERROR_STOP on\nset client_min_messages = warning;",
        f"begin;\n{SEARCH_PATH};\n{files.roles.text.strip()}\n{_able(files)}\ncommit;",
        f"begin;\n{SEARCH_PATH};\nset local lock_timeout = 0;\n{LOCK};\nset local lock_timeout = '10s';",
        _guard(files),
        f"set local role {files.owner};",
        *(f"create schema if not exists {schema};" for schema in SCHEMAS),
        ledger.TABLES,
        *(_once(file) for file in files.numbered),
        *(f"-- {file.name}\n{file.text.strip()}\n{_noted(file)}" for file in (*files.functions, files.grants)),
        ledger.reader_grants(files),
        ledger.version_statement(files),
        "commit;\n",
    ]
    return "\n\n".join(parts)


def _able(files: Migrations) -> str:
    """Let the running login become the owner, and the owner create schemas here."""
    return f"""do $able$
begin
    if current_setting('server_version_num')::int < 160000 then
        if not pg_has_role(current_user, '{files.owner}', 'MEMBER') then
            execute format('grant %I to %I', '{files.owner}', current_user);
        end if;
    elsif not pg_has_role(current_user, '{files.owner}', 'SET') then
        execute format('grant %I to %I with set true', '{files.owner}', current_user);
    end if;
    if not has_database_privilege('{files.owner}', current_database(), 'CREATE') then
        execute format('grant create on database %I to %I', current_database(), '{files.owner}');
    end if;
end
$able$;"""


def _guard(files: Migrations) -> str:
    """Refuse a newer schema, another role prefix, and schemas of our names that aren't ours."""
    return f"""do $guard$
declare
    installed record;
begin
    if to_regclass('internal.schema_version') is not null then
        select * into installed from internal.schema_version;
        if installed.schema_version > {files.schema_version} then
            raise exception 'the schema is version %, newer than this script''s {files.schema_version}',
                installed.schema_version;
        elsif installed.role_prefix <> '{files.role_prefix}' then
            raise exception 'this database was installed with --role-prefix %', installed.role_prefix;
        end if;
    elsif exists ({FOREIGN.strip().replace(" order by 1", "")}) then
        raise exception 'a schema named {", ".join(SCHEMAS)} exists already and isn''t Reproq''s';
    end if;
end
$guard$;"""


def _once(file: SqlFile) -> str:
    return f"""select not exists (select from internal.migration where name = '{file.name}') as reproq_apply \\gset
\\if :reproq_apply
-- {file.name}
{file.text.strip()}
{ledger.note_statement("migration", file)}
\\endif"""


def _noted(file: SqlFile) -> str:
    return ledger.note_statement("function_file", file)
