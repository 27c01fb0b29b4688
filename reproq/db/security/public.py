"""Nothing is everybody's: what PUBLIC may do in Reproq's schemas, and in what will be added to them."""

from __future__ import annotations

from reproq.db.doctor.rule import Rule, query

_SCHEMAS = """
    select format('everybody has %%s on schema %%I', a.privilege_type, n.nspname),
           format('revoke all on schema %%I from public;', n.nspname)
    from pg_namespace n cross join lateral aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
    where n.nspname = any(%(ours)s) and a.grantee = 0 order by 1"""
_FUNCTIONS = """
    select format('everybody may call %%s', p.oid::regprocedure), format('revoke execute on routine %%s from public;',
           p.oid::regprocedure)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where n.nspname = any(%(ours)s) and a.grantee = 0 order by 1"""
_RELATIONS = """
    select format('everybody has %%s on %%s', a.privilege_type, c.oid::regclass),
           format('revoke all on %%s %%s from public;', case c.relkind when 'S' then 'sequence' else 'table' end,
                  c.oid::regclass)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    cross join lateral aclexplode(c.relacl) a
    where n.nspname = any(%(ours)s) and a.grantee = 0
    union
    select format('everybody has %%s on column %%I of %%s', a.privilege_type, t.attname, c.oid::regclass),
           format('revoke all (%%I) on table %%s from public;', t.attname, c.oid::regclass)
    from pg_attribute t join pg_class c on c.oid = t.attrelid join pg_namespace n on n.oid = c.relnamespace
    cross join lateral aclexplode(t.attacl) a
    where n.nspname = any(%(ours)s) and a.grantee = 0 order by 1"""
# Arrays and multiranges have no rights of their own.
_TYPES = """
    select format('everybody may use type %%s', t.oid::regtype), format('revoke usage on type %%s from public;',
           t.oid::regtype)
    from pg_type t join pg_namespace n on n.oid = t.typnamespace
    cross join lateral aclexplode(coalesce(t.typacl, acldefault('T', t.typowner))) a
    where n.nspname = any(%(ours)s) and a.grantee = 0 and t.typcategory <> 'A' and t.typtype <> 'm' order by 1"""
# Only the form without IN SCHEMA takes away what PUBLIC gets by default, and only for the role that creates.
_DEFAULTS = """
    select format('what %%I creates from now on is everybody''s: %%s', r.rolname, w.what),
           format('alter default privileges for role %%I revoke %%s from public;', r.rolname, w.what)
    from pg_roles r
    cross join (values ('f', 'execute on functions'), ('T', 'usage on types')) as w(kind, what)
    where %(installed)s and r.rolname = %(owner)s::text and exists (
        select from aclexplode(coalesce(
            (select d.defaclacl from pg_default_acl d
             where d.defaclrole = r.oid and d.defaclnamespace = 0 and d.defaclobjtype::text = w.kind),
            acldefault(w.kind::"char", r.oid))) a
        where a.grantee = 0)
    union all
    select format('what %%I creates%%s from now on is also %%s''s: %%s on %%s', r.rolname, ' in schema ' || n.nspname,
                  coalesce(g.rolname, 'everybody'), lower(string_agg(a.privilege_type, ', ' order by a.privilege_type)),
                  k.kind),
           format('alter default privileges for role %%I%%s revoke all on %%s from %%s;', r.rolname,
                  ' in schema ' || quote_ident(n.nspname), k.kind, coalesce(quote_ident(g.rolname), 'public'))
    from pg_default_acl d join pg_roles r on r.oid = d.defaclrole
    left join pg_namespace n on n.oid = d.defaclnamespace
    join (values ('r', 'tables'), ('S', 'sequences'), ('f', 'functions'), ('T', 'types'), ('n', 'schemas'),
                 ('L', 'large objects')) as k(type, kind) on k.type = d.defaclobjtype::text
    cross join lateral aclexplode(d.defaclacl) a left join pg_roles g on g.oid = a.grantee
    where r.rolname = %(owner)s::text and %(installed)s and a.grantee <> d.defaclrole
      and not (a.grantee = 0 and n.nspname is null and k.type in ('f', 'T'))
    group by r.rolname, n.nspname, g.rolname, k.kind
    order by 1"""

RULES = (
    Rule("public.schemas", "no schema of Reproq's is everybody's", "pg_namespace.nspacl", query(_SCHEMAS)),
    Rule(
        "public.functions",
        "no function of Reproq's is everybody's",
        "pg_proc.proacl and its default",
        query(_FUNCTIONS),
    ),
    Rule(
        "public.relations",
        "no table, view, sequence or column is everybody's",
        "pg_class.relacl, pg_attribute.attacl",
        query(_RELATIONS),
    ),
    Rule("public.types", "no type of Reproq's is everybody's", "pg_type.typacl and its default", query(_TYPES)),
    Rule(
        "public.defaults",
        "what a migration adds is private by default",
        "pg_default_acl of the owner",
        query(_DEFAULTS),
    ),
)
