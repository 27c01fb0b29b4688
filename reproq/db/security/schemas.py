"""The schemas whose functions a payload may name: whoever owns them, a worker calls into them."""

from __future__ import annotations

from collections.abc import Iterator

from reproq.db.doctor.rule import Finding, Rule, query
from reproq.db.doctor.scene import Scene
from reproq.db.migration.files import SCHEMAS
from reproq.db.security.logins import LOGINS

HANDLERS = "comms"
_PUBLIC = """
    select format('everybody may call %%s', p.oid::regprocedure), format('revoke execute on routine %%s from public;',
           p.oid::regprocedure)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where n.nspname = any(%(theirs)s) and a.grantee = 0 order by 1"""
# Authors create in schemas of their own, and members of the owner in Reproq's: neither is a worker or an app.
_WRITABLE = f"""{LOGINS}, users as (
        select l.oid, l.rolname from ours l
        where not l.rolsuper
          and exists (select from reach r join pg_roles g on g.oid = r.role
                      where r.login = l.oid and g.rolname = any(%(service)s) and g.rolname <> %(author)s::text)
          and not exists (select from reach r join pg_roles g on g.oid = r.role
                          where r.login = l.oid and g.rolname = %(owner)s::text)
        union all
        select oid, rolname from pg_roles where rolname = any(%(service)s) and rolname <> %(author)s::text
    )
    select format('schema %%I belongs to %%I, a login or role of Reproq''s', n.nspname, u.rolname),
           case when n.nspname = any(%(ours)s)
                then format('alter schema %%I owner to %%I;', n.nspname, %(owner)s::text)
                else format('alter schema %%I owner to current_user;  -- better: a role without login', n.nspname) end
    from pg_namespace n join users u on u.oid = n.nspowner where n.nspname = any(%(watched)s)
    union all
    select format('%%I may create in schema %%I', u.rolname, n.nspname),
           (select format('revoke create on schema %%I from %%s;', n.nspname,
                          string_agg(distinct coalesce(quote_ident(g.rolname), 'public'), ', '))
            from aclexplode(n.nspacl) a left join pg_roles g on g.oid = a.grantee
            where a.privilege_type = 'CREATE' and (a.grantee = 0 or pg_has_role(u.oid, a.grantee, 'MEMBER')))
    from pg_namespace n cross join users u
    where n.nspname = any(%(watched)s) and u.oid <> n.nspowner and has_schema_privilege(u.oid, n.oid, 'CREATE')
    order by 1"""
# Whoever creates in an allowed schema: its owner, and the owners of what is in it.
_DEFAULTS = """
    select format('functions that %%I adds to schema %%I from now on are everybody''s', r.rolname, min(c.nspname)),
           format('alter default privileges for role %%I revoke execute on functions from public;', r.rolname)
    from (select n.nspname, n.nspowner from pg_namespace n where n.nspname = any(%(theirs)s)
          union select n.nspname, p.proowner from pg_proc p join pg_namespace n on n.oid = p.pronamespace
          where n.nspname = any(%(theirs)s)) as c(nspname, creator)
    join pg_roles r on r.oid = c.creator
    where exists (select from aclexplode(coalesce(
        (select d.defaclacl from pg_default_acl d where d.defaclrole = r.oid and d.defaclnamespace = 0
               and d.defaclobjtype = 'f'),
        acldefault('f', r.oid))) a where a.grantee = 0)
    group by r.rolname order by 1"""
_GONE = """
    select format('the allowed schema %%I doesn''t exist: who may create it decides what payloads call', s),
           format('delete from internal.callable_schema where schema_name = %%L;', s)
    from unnest(%(theirs)s::text[]) s where not exists (select from pg_namespace n where n.nspname = s) order by 1"""
_FORBIDDEN = """
    select format('payloads may name functions of schema %%I', s),
           format('delete from internal.callable_schema where schema_name = %%L;', s)
    from unnest(%(theirs)s::text[]) s where s in ('public', 'information_schema') or s like 'pg\\_%%' order by 1"""


def _allowed(scene: Scene) -> Iterator[Finding]:
    yield from query(_GONE)(scene)
    yield from query(_FORBIDDEN)(scene)
    for name in set(scene.named or ()) & set(SCHEMAS) - {HANDLERS}:
        fix = f"delete from internal.callable_schema where schema_name = '{name}';"
        yield Finding(f"payloads may name functions of schema {name}, Reproq's own", fix)
    if scene.installed and scene.named is not None and HANDLERS not in scene.named:
        fix = f"insert into internal.callable_schema (schema_name) values ('{HANDLERS}');"
        yield Finding(f"payloads may not name the handlers of e-mail and SMS, in schema {HANDLERS}", fix)


RULES = (
    Rule(
        "schemas.allowed",
        "every schema that payloads may name exists and is nobody else's",
        "internal.callable_schema",
        _allowed,
    ),
    Rule(
        "schemas.public",
        "no function of an allowed schema is everybody's",
        "pg_proc.proacl and its default",
        query(_PUBLIC),
    ),
    Rule(
        "schemas.writable",
        "no worker or app may create in Reproq's or an allowed schema",
        "has_schema_privilege, asked of the server",
        query(_WRITABLE),
    ),
    Rule(
        "schemas.defaults",
        "what is added to an allowed schema is private by default",
        "pg_default_acl of its creators, global form",
        query(_DEFAULTS),
    ),
)
