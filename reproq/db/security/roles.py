"""What Reproq's roles hold: exactly what grants.sql gives them, and by no other way more."""

from __future__ import annotations

from collections.abc import Iterable

from reproq.db.doctor.rule import Finding, Rule, query
from reproq.db.doctor.scene import Scene
from reproq.db.security import expected
from reproq.db.security.expected import Grant

_HELD = """
    select k.kind, k.name, g.rolname::text, a.privilege_type, a.is_grantable, format(k.target, a.privilege_type)
    from (
        select 'schema', nspname::text, format('%%%%s on schema %%I', nspname), nspacl, nspowner
        from pg_namespace where nspname = any(%(ours)s)
        union all
        select 'relation', c.oid::regclass::text,
               format('%%%%s on %%s %%s', case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass),
               c.relacl, c.relowner
        from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = any(%(ours)s)
        union all
        select 'relation', format('%%s(%%I)', c.oid::regclass, t.attname),
               format('%%%%s (%%I) on table %%s', t.attname, c.oid::regclass), t.attacl, c.relowner
        from pg_attribute t join pg_class c on c.oid = t.attrelid join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = any(%(ours)s) and t.attacl is not null
        union all
        select 'function', format('%%I.%%I', n.nspname, p.proname), format('%%%%s on routine %%s', p.oid::regprocedure),
               p.proacl, p.proowner
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = any(%(ours)s)
        union all
        select 'type', t.oid::regtype::text, format('%%%%s on type %%s', t.oid::regtype), t.typacl, t.typowner
        from pg_type t join pg_namespace n on n.oid = t.typnamespace where n.nspname = any(%(ours)s)
    ) as k(kind, name, target, acl, owner)
    cross join lateral aclexplode(k.acl) a
    join pg_roles g on g.oid = a.grantee
    where a.grantee <> k.owner order by 1, 2, 3, 4, 6"""
_BROAD = """
    select format('%%I is not a plain role: it %%s', r.rolname, w.what), format('alter role %%I %%s;', r.rolname, w.fix)
    from pg_roles r
    cross join lateral (values
        (r.rolsuper, 'is a superuser', 'nosuperuser'), (r.rolcreaterole, 'may create roles', 'nocreaterole'),
        (r.rolcreatedb, 'may create databases', 'nocreatedb'), (r.rolreplication, 'may replicate', 'noreplication'),
        (r.rolbypassrls, 'bypasses row security', 'nobypassrls'), (r.rolcanlogin, 'can log in', 'nologin')) as w(has,
               what, fix)
    where r.rolname = any(%(roles)s) and w.has order by 1"""
_MEMBER = """
    select format('%%I is a member of %%I', m.rolname, r.rolname),
           format('revoke %%I from %%I granted by %%I;', r.rolname, m.rolname, g.rolname)
    from pg_auth_members a join pg_roles r on r.oid = a.roleid join pg_roles m on m.oid = a.member
    join pg_roles g on g.oid = a.grantor
    where m.rolname = any(%(roles)s) order by 1"""
# As PostgreSQL itself would decide, so that rights through PUBLIC or another role count too.
_RELATIONS = """
    select format('%%I may %%s %%s', r.rolname, lower(w.right), c.oid::regclass),
           concat_ws(' ', (select format('revoke all on %%s %%s from %%s;',
                  case c.relkind when 'S' then 'sequence' else 'table' end, c.oid::regclass,
                  string_agg(distinct coalesce(quote_ident(g.rolname), 'public'), ', '))
            from (select grantee from aclexplode(c.relacl) union
                  select e.grantee from pg_attribute t cross join aclexplode(t.attacl) e where t.attrelid = c.oid) a
            left join pg_roles g on g.oid = a.grantee
            where a.grantee = 0 or pg_has_role(r.oid, a.grantee, 'MEMBER') having count(*) > 0),
            (select string_agg(format('revoke %%I from %%I granted by %%I;', p.rolname, h.rolname, b.rolname), ' ')
             from pg_auth_members m join pg_roles p on p.oid = m.roleid join pg_roles h on h.oid = m.member
             join pg_roles b on b.oid = m.grantor
             where p.rolname in ('pg_read_all_data', 'pg_write_all_data') and pg_has_role(r.oid, h.oid, 'MEMBER')))
    from pg_roles r
    cross join pg_class c join pg_namespace n on n.oid = c.relnamespace
    cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER',
           'USAGE']) as w("right")
    where r.rolname = any(%(service)s) and n.nspname = any(%(ours)s) and c.relkind in ('r', 'v', 'm', 'p', 'f', 'S')
      and not (r.rolname = %(reader)s::text and c.relkind = 'v' and w.right = 'SELECT')
      and case when c.relkind = 'S' then w.right in ('SELECT', 'UPDATE', 'USAGE') and has_sequence_privilege(r.oid,
             c.oid, w.right)
               when w.right in ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES') then has_any_column_privilege(r.oid,
                      c.oid, w.right)
               else w.right <> 'USAGE' and has_table_privilege(r.oid, c.oid, w.right) end
    order by 1"""
_OWNED = """
    select format('%%s belongs to %%I, not to %%I', k.name, r.rolname, %(owner)s::text),
           format('alter %%s %%s owner to %%I;', k.kind, k.name, %(owner)s::text)
    from (
        select 'schema', format('%%I', nspname), nspowner from pg_namespace where nspname = any(%(ours)s)
        union all
        select case c.relkind when 'S' then 'sequence' when 'v' then 'view' else 'table' end, c.oid::regclass::text,
               c.relowner
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = any(%(ours)s) and c.relkind in ('r', 'v', 'm', 'p', 'f', 'S')
        union all
        select 'routine', p.oid::regprocedure::text, p.proowner
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = any(%(ours)s)
        union all
        select 'type', t.oid::regtype::text, t.typowner
        from pg_type t join pg_namespace n on n.oid = t.typnamespace
        where n.nspname = any(%(ours)s) and t.typtype in ('d', 'e', 'r')
    ) as k(kind, name, owner)
    join pg_roles r on r.oid = k.owner where r.rolname <> %(owner)s::text order by 1"""


def _held(scene: Scene) -> Iterable[Finding]:
    """Too much and too little are both wrong: what works by another grant than ours breaks with it."""
    held, meant = set(), expected.grants(scene.files)
    for *key, passes_on, target in scene.ask(_HELD):
        grant = Grant(*key)
        held.add(grant)
        if grant not in meant:
            yield Finding(
                f"{grant.role} has {grant.right} on {grant.kind} {grant.name}", f'revoke {target} from "{grant.role}";'
            )
        elif passes_on:
            fix = f'revoke grant option for {target} from "{grant.role}";'
            yield Finding(f"{grant.role} may hand on {grant.right} on {grant.kind} {grant.name}", fix)
    for grant in sorted(meant - held) if scene.installed else ():
        kind = "table" if grant.kind == "relation" else grant.kind
        fix = f"grant {grant.right.lower()} on {kind} {grant.name} to {grant.role};"
        yield Finding(f"{grant.role} lacks {grant.right} on {grant.kind} {grant.name}", fix)


def _missing(scene: Scene) -> Iterable[Finding]:
    if not scene.installed:
        yield Finding("Reproq's schema isn't installed in this database", "reproq migrate")
    elif scene.owner != scene.files.owner:
        fix = "reproq migrate --roles-sql | psql …, as an administrator; then reproq migrate"
        yield Finding(f"login {scene.owner} owns all of Reproq's schema: the roles were missing when it was made", fix)


RULES = (
    Rule(
        "roles.owner", "a role that nobody logs in as owns the schema", "the owner of internal.schema_version", _missing
    ),
    Rule("roles.held", "each role holds what grants.sql says, no more and no less", "every ACL in our schemas", _held),
    Rule(
        "roles.relations",
        "no role but the reader has a right on a table, view or sequence, and it on views only",
        "has_table_privilege and the like, asked of the server",
        query(_RELATIONS),
    ),
    Rule("roles.plain", "Reproq's roles can't log in and are no administrators", "pg_roles", query(_BROAD)),
    Rule("roles.members", "Reproq's roles are members of no other role", "pg_auth_members", query(_MEMBER)),
    Rule("roles.owned", "every object of Reproq's belongs to the owner", "nspowner, relowner, …", query(_OWNED)),
)
