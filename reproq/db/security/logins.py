"""Who can log in as one of Reproq's roles, and what such a login may do besides.

A membership counts that lets a login act as the role. On 16
       and newer the role that created another one may only hand it
on: that is no login of ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from reproq.db.doctor.rule import Finding, Rule, query
from reproq.db.doctor.scene import Scene

# Before 16 the columns don't exist, and every membership lets act.
_ACTING = """coalesce((to_jsonb(m) ->> 'set_option')::boolean, true)
           or coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, true)"""
LOGINS = f"""
    with recursive reach(login, role) as (
        select l.oid, m.roleid from pg_roles l join pg_auth_members m on m.member = l.oid
        where l.rolcanlogin and ({_ACTING})
        union
        select r.login, m.roleid from reach r join pg_auth_members m on m.member = r.role where {_ACTING}
    ), ours as (
        select distinct l.oid, l.rolname, l.rolsuper, l.rolcreaterole, l.rolcreatedb, l.rolreplication, l.rolbypassrls
        from reach r join pg_roles g on g.oid = r.role join pg_roles l on l.oid = r.login
        where g.rolname = any(%(service)s)
    )"""
_MIGHT = f"""{LOGINS}
    select format('login %%I %%s', l.rolname, w.what), format('alter role %%I %%s;', l.rolname, w.fix)
    from ours l
    cross join lateral (values
        (l.rolsuper, 'is a superuser', 'nosuperuser'), (l.rolcreaterole, 'may create roles', 'nocreaterole'),
        (l.rolcreatedb, 'may create databases', 'nocreatedb'), (l.rolreplication, 'may replicate', 'noreplication'),
        (l.rolbypassrls, 'bypasses row security', 'nobypassrls')) as w(has, what, fix)
    where w.has order by 1"""
_OWNER = f"""{LOGINS}
    select format('login %%I may act as %%I, who owns everything', l.rolname, o.rolname),
           format('revoke %%I from %%I;  -- or from the role between them', o.rolname, l.rolname)
    from ours l join reach r on r.login = l.oid join pg_roles o on o.oid = r.role
    where o.rolname = %(owner)s::text
    union all
    select format('login %%I owns Reproq''s schema', l.rolname), 'reproq migrate --roles-sql'
    from ours l where l.rolname = %(owner)s::text
    union all
    select format('login %%I owns this database', l.rolname), format('alter database %%I owner to …;', d.datname)
    from ours l join pg_database d on d.datdba = l.oid where d.datname = current_database()
    order by 1"""
_SERVER_ROLES = f"""{LOGINS}
    select format('login %%I may act as %%I', l.rolname, g.rolname), format('revoke %%I from %%I;', g.rolname,
           l.rolname)
    from ours l join reach r on r.login = l.oid join pg_roles g on g.oid = r.role
    where g.rolname in (
        'pg_read_all_data', 'pg_write_all_data', 'pg_execute_server_program', 'pg_read_server_files',
        'pg_write_server_files', 'pg_read_all_stats', 'pg_read_all_settings', 'pg_stat_scan_tables', 'pg_monitor',
        'pg_signal_backend', 'pg_maintain', 'pg_create_subscription', 'pg_database_owner')
    order by 1"""
_RELATIONS = f"""{LOGINS}
    select format('login %%I may read or change %%s', l.rolname, c.oid::regclass),
           format('revoke all on %%s %%s from %%I;  -- or from the role that it has this right by',
                  case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass, l.rolname)
    from ours l cross join pg_class c join pg_namespace n on n.oid = c.relnamespace
    where not l.rolsuper and n.nspname = any(%(ours)s) and c.relkind in ('r', 'm', 'p', 'f', 'S')
      and not exists (select from reach r join pg_roles o on o.oid = r.role where r.login = l.oid
             and o.rolname = %(owner)s::text)
      and case when c.relkind = 'S' then has_sequence_privilege(l.oid, c.oid, 'SELECT, UPDATE, USAGE')
               else has_table_privilege(l.oid, c.oid, 'DELETE, TRUNCATE, TRIGGER')
                    or has_any_column_privilege(l.oid, c.oid, 'SELECT, INSERT, UPDATE, REFERENCES') end
    order by 1"""
_PARAMETERS = f"""{LOGINS}
    select format('%%s may set %%s', coalesce(quote_ident(g.rolname), 'everybody'), p.parname),
           format('revoke %%s on parameter %%s from %%s;', a.privilege_type, p.parname,
                  coalesce(quote_ident(g.rolname), 'public'))
    from pg_parameter_acl p cross join lateral aclexplode(p.paracl) a left join pg_roles g on g.oid = a.grantee
    where a.grantee = 0 or g.rolname = any(%(roles)s) or a.grantee in (select oid from ours)
    order by 1"""


def _parameters(scene: Scene) -> Iterable[Finding]:
    return query(_PARAMETERS)(scene) if scene.server >= 150000 else []


RULES = (
    Rule("logins.might", "no login of Reproq's roles is an administrator", "pg_roles of their members", query(_MIGHT)),
    Rule(
        "logins.owner",
        "none of them may act as the owner, or owns the database",
        "pg_auth_members, pg_database",
        query(_OWNER),
    ),
    Rule("logins.server_roles", "none of them has a role of the server's own", "pg_auth_members", query(_SERVER_ROLES)),
    Rule(
        "logins.relations",
        "none of them has a right on a table or sequence",
        "has_table_privilege and the like, asked of the server",
        query(_RELATIONS),
    ),
    Rule(
        "logins.parameters",
        "none of them may set what only administrators set",
        "pg_parameter_acl (15 and newer)",
        _parameters,
    ),
)
