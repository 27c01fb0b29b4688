"""Settings of the server that decide who reads payloads in its log, and what everybody may do in this database."""

from __future__ import annotations

from reproq.db.doctor.rule import Rule, Severity, query
from reproq.db.security.logins import LOGINS

# What a login's sessions will have: its own setting, in this database before elsewhere, else the server's.
_OF_LOGINS = f"""{LOGINS}, effective as (
        select l.rolname, p.name, coalesce((
            select substr(c, length(p.name) + 2) from pg_db_role_setting s cross join unnest(s.setconfig) c
            where starts_with(c, p.name || '=') and s.setrole in (l.oid, 0)
              and s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
            order by s.setrole = 0, s.setdatabase = 0 limit 1), current_setting(p.name)) as value
        from ours l cross join (values ('log_parameter_max_length'), ('log_parameter_max_length_on_error'),
            ('log_statement'), ('log_min_duration_statement'), ('log_min_duration_sample')) as p(name)
    )"""
_ON_ERROR = f"""{_OF_LOGINS}
    select format('a failing statement of %%I puts its parameters, payloads among them, into the server''s log',
           rolname),
           format('alter role %%I set log_parameter_max_length_on_error = 0;', rolname)
    from effective where name = 'log_parameter_max_length_on_error' and value <> '0' order by 1"""
_LOGGED = f"""{_OF_LOGINS}
    select format('statements of %%I are logged with their parameters, payloads among them', e.rolname),
           format('alter role %%I set log_parameter_max_length = 0;', e.rolname)
    from effective e
    where e.name = 'log_parameter_max_length' and e.value <> '0' and exists (
        select from effective o where o.rolname = e.rolname and (
            (o.name = 'log_statement' and o.value in ('mod', 'all'))
            or (o.name in ('log_min_duration_statement', 'log_min_duration_sample') and o.value <> '-1')))
    order by 1"""
_SHARED = """
    select format('everybody may create temporary tables in database %%I', d.datname),
           'reproq migrate --harden-database  # lists who would lose it'
    from pg_database d where d.datname = current_database() and has_database_privilege('public', d.oid, 'TEMP')
    union all
    select 'everybody may create in schema public', 'reproq migrate --harden-database  # lists who would lose it'
    from pg_namespace n where n.nspname = 'public' and has_schema_privilege('public', n.oid, 'CREATE')"""

RULES = (
    Rule(
        "parameters.on_error",
        "no login's failing statement is logged with its parameters",
        "log_parameter_max_length_on_error of each login",
        query(_ON_ERROR),
    ),
    Rule(
        "parameters.logged",
        "no login's statements are logged with their parameters",
        "log_statement, log_min_duration_…, log_parameter_max_length",
        query(_LOGGED),
    ),
    Rule(
        "parameters.shared",
        "what everybody may do belongs to your application; Reproq's functions hold against it",
        "TEMP on the database, CREATE on public",
        query(_SHARED),
        severity=Severity.NOTE,
    ),
)
