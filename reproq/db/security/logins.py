"""Who can log in as one of Reproq's roles, and what such a login may do besides.

A membership counts that lets a login act as the role. On 16 and newer the role that created another one may only hand
it on: that is no login of ours, but it has to be an administrator.
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
_REVOKED = """(
    select string_agg(format('revoke %%I from %%I granted by %%I;', {role}.rolname, h.rolname, gr.rolname), ' ')
    from pg_auth_members m join pg_roles h on h.oid = m.member join pg_roles gr on gr.oid = m.grantor
    where m.roleid = {role}.oid
      and (m.member = l.oid or m.member in (select x.role from reach x where x.login = l.oid)))"""
_OWNER = f"""{LOGINS}
    select format('login %%I may act as %%I, who owns everything', l.rolname, o.rolname),
           {_REVOKED.format(role="o")}
    from ours l join reach r on r.login = l.oid join pg_roles o on o.oid = r.role
    where o.rolname = %(owner)s::text
    union all
    select format('login %%I owns Reproq''s schema', l.rolname), 'reproq migrate --roles-sql'
    from ours l where l.rolname = %(owner)s::text
    union all
    select format('login %%I owns this database', l.rolname), format('alter database %%I owner to current_user;',
           d.datname)
    from ours l join pg_database d on d.datdba = l.oid where d.datname = current_database()
    order by 1"""
_SERVER_ROLES = f"""{LOGINS}
    select format('login %%I may act as %%I', l.rolname, g.rolname), {_REVOKED.format(role="g")}
    from ours l join reach r on r.login = l.oid join pg_roles g on g.oid = r.role
    where g.rolname like 'pg\\_%%'
    order by 1"""
_RELATIONS = f"""{LOGINS}
    select format('login %%I may read or change %%s', l.rolname, c.oid::regclass),
           concat_ws(' ', (select format('revoke all on %%s %%s from %%s;',
                  case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass,
                  string_agg(distinct coalesce(quote_ident(g.rolname), 'public'), ', '))
            from (select grantee from aclexplode(c.relacl) union
                  select e.grantee from pg_attribute t cross join aclexplode(t.attacl) e where t.attrelid = c.oid) a
            left join pg_roles g on g.oid = a.grantee
            where a.grantee = 0 or a.grantee = l.oid or a.grantee in (select x.role from reach x where x.login = l.oid)
            having count(*) > 0),
            (select string_agg(format('revoke %%I from %%I granted by %%I;', g.rolname, h.rolname, gr.rolname), ' ')
             from pg_auth_members m join pg_roles g on g.oid = m.roleid join pg_roles h on h.oid = m.member
             join pg_roles gr on gr.oid = m.grantor
             where g.rolname in ('pg_read_all_data', 'pg_write_all_data', 'pg_maintain') and (m.member = l.oid
               or m.member in (select x.role from reach x where x.login = l.oid))))
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
       or a.grantee in (select x.role from reach x join ours l on l.oid = x.login)
    order by 1"""

# Whoever created a role of ours may hand it on (16+), and an administrator could anyway.
_ADMIN = """
    select format('%%I may hand on %%I', h.rolname, r.rolname),
           format('revoke admin option for %%I from %%I granted by %%I;', r.rolname, h.rolname, g.rolname)
    from pg_auth_members m join pg_roles r on r.oid = m.roleid join pg_roles h on h.oid = m.member
    join pg_roles g on g.oid = m.grantor
    where r.rolname = any(%(roles)s) and m.admin_option and not h.rolsuper and not h.rolcreaterole order by 1"""
_ONE_ROLE = f"""{LOGINS}
    select format('login %%I may act as login %%I', l.rolname, g.rolname), {_REVOKED.format(role="g")}
    from ours l join reach r on r.login = l.oid join pg_roles g on g.oid = r.role
    where not l.rolsuper and g.rolcanlogin and exists (select from ours o where o.oid = g.oid)
    union all
    select format('login %%I is a worker''s and has %%I too', l.rolname, g.rolname), {_REVOKED.format(role="g")}
    from ours l join reach r on r.login = l.oid join pg_roles g on g.oid = r.role
    where not l.rolsuper and g.rolname = any(%(service)s) and g.rolname <> %(worker)s::text
      and exists (select from reach x join pg_roles w on w.oid = x.role
                  where x.login = l.oid and w.rolname = %(worker)s::text)
    order by 1"""
# Not authors, who make schemas of their own, and not those who act as the owner anyway.
_CREATES = f"""{LOGINS}, users as (
        select l.oid, l.rolname from ours l
        where not l.rolsuper and not exists (
            select from reach r join pg_roles g on g.oid = r.role
            where r.login = l.oid and g.rolname in (%(owner)s::text, %(author)s::text))
    )
    select format('login %%I may create schemas in database %%I', l.rolname, d.datname),
           (select format('revoke create on database %%I from %%s;', d.datname,
                          string_agg(distinct coalesce(quote_ident(g.rolname), 'public'), ', '))
            from aclexplode(d.datacl) a left join pg_roles g on g.oid = a.grantee
            where a.privilege_type = 'CREATE' and (a.grantee in (0, l.oid)
              or a.grantee in (select x.role from reach x where x.login = l.oid)))
    from users l join pg_database d on d.datname = current_database()
    where d.datdba <> l.oid and has_database_privilege(l.oid, d.oid, 'CREATE')
    union all
    select format('login %%I owns schema %%I', l.rolname, n.nspname),
           format('alter schema %%I owner to %%I;', n.nspname, case n.nspname when 'public' then 'pg_database_owner'
                  else (select pg_get_userbyid(d.datdba) from pg_database d where d.datname = current_database()) end)
    from users l join pg_namespace n on n.nspowner = l.oid where n.nspname = 'public'
    order by 1"""
# An own setting of the login's in this database goes before every other, and takes nothing from anybody else.
_SETTINGS = f"""{LOGINS}, set_for as (
        select distinct on (l.oid, p.name) l.oid, l.rolname, p.name, p.safe, p.also,
               substr(c, length(p.name) + 2) as value
        from ours l
        cross join (values
            ('session_replication_role', 'origin', '', false), ('row_security', 'on', 'true', false),
            ('role', 'none', '', false), ('session_preload_libraries', '', '', false),
            ('local_preload_libraries', '', '', false), ('allow_system_table_mods', 'off', 'false', false),
            ('ignore_system_indexes', 'off', 'false', false), ('zero_damaged_pages', 'off', 'false', false),
            ('standard_conforming_strings', 'on', 'true', false), ('transform_null_equals', 'off', 'false', false),
            ('array_nulls', 'on', 'true', false), ('debug_print_parse', 'off', 'false', false),
            ('debug_print_rewritten', 'off', 'false', false), ('debug_print_plan', 'off', 'false', false),
            ('search_path', 'pg_catalog, pg_temp', '', true)) as p(name, safe, also, workers)
        join pg_db_role_setting s on s.setrole in (l.oid, 0)
             and s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
        cross join unnest(s.setconfig) c
        where starts_with(c, p.name || '=') and (not p.workers or exists (
            select from reach x join pg_roles w on w.oid = x.role
            where x.login = l.oid and w.rolname = %(worker)s::text))
        order by l.oid, p.name, s.setrole = 0, s.setdatabase = 0
    )
    select format('sessions of %%I begin with %%s = %%s', rolname, name, value),
           format('alter role %%I in database %%I set %%s = %%s;', rolname, current_database(), name,
                  case name when 'search_path' then safe else quote_literal(safe) end)
    from set_for where lower(value) not in (safe, also, '""') order by 1"""


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
    Rule(
        "logins.admin_option",
        "nobody but an administrator may hand on a role of Reproq's",
        "pg_auth_members.admin_option",
        query(_ADMIN),
    ),
    Rule(
        "logins.one_role",
        "a worker's login has no other role of Reproq's, and none is a member of another's login",
        "pg_auth_members",
        query(_ONE_ROLE),
    ),
    Rule(
        "logins.creates",
        "no worker or app may create schemas, or owns schema public",
        "has_database_privilege, pg_namespace.nspowner",
        query(_CREATES),
    ),
    Rule(
        "logins.settings",
        "none of their sessions begins with a setting that changes what a statement means or turns triggers off",
        "pg_db_role_setting",
        query(_SETTINGS),
    ),
)
