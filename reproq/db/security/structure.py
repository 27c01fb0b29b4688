"""Everything but functions, against what a fresh migration makes: what a default or a check calls runs as the owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reproq.db.doctor.rule import Finding, Rule, Severity, query
from reproq.db.doctor.scene import Scene
from reproq.db.security import shape

# Extensions and the server's own objects aside.
_CATALOG = """
    select format('%%s was added to pg_catalog, where every name is looked up first', p.oid::regprocedure),
           format('drop routine pg_catalog.%%s;', p.oid::regprocedure)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = 'pg_catalog' and p.oid >= 16384
      and not exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid
             and d.deptype = 'e')
    order by 1"""
# What belongs to the owner or a superuser elsewhere, and opens our tables to whoever may use it.
_ELSEWHERE = """
    select format('%%s belongs to %%I', f.name, %(owner)s::text), f.fix
    from (
        select p.oid::regprocedure::text, format('drop routine %%s;', p.oid::regprocedure), p.proowner, p.pronamespace
        from pg_proc p
        union all
        select c.oid::regclass::text,
               format('drop %%s %%s;', case c.relkind when 'v' then 'view' when 'm' then 'materialized view'
                      when 'S' then 'sequence' when 'f' then 'foreign table' else 'table' end, c.oid::regclass),
               c.relowner, c.relnamespace
        from pg_class c where c.relkind in ('v', 'm', 'r', 'p', 'f', 'S') and c.relpersistence <> 't'
          and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
                 and d.deptype in ('i', 'a') and c.relkind = 'S')
    ) as f(name, fix, owner, schema)
    join pg_namespace n on n.oid = f.schema join pg_roles r on r.oid = f.owner
    where r.rolname = %(owner)s::text and %(installed)s and not n.nspname = any(%(ours)s)
      and r.rolname like '%%reproq\\_owner' and n.nspname not like 'pg\\_%%'
    union all
    select distinct format('%%s %%s shows %%s', case v.relkind when 'v' then 'view' else 'materialized view' end,
                           v.oid::regclass, b.oid::regclass),
           format('drop %%s %%s;', case v.relkind when 'v' then 'view' else 'materialized view' end, v.oid::regclass)
    from pg_class v join pg_namespace n on n.oid = v.relnamespace join pg_roles r on r.oid = v.relowner
    join pg_rewrite w on w.ev_class = v.oid
    join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
           and d.refclassid = 'pg_class'::regclass
    join pg_class b on b.oid = d.refobjid and b.oid <> v.oid join pg_namespace bn on bn.oid = b.relnamespace
    where bn.nspname = any(%(ours)s) and not n.nspname = any(%(ours)s) and v.relkind in ('v', 'm')
      and r.rolname <> %(owner)s::text and exists (
          select from aclexplode(v.relacl) g where g.grantee <> v.relowner)
    order by 1"""

_PUBLISHED = """
    select distinct format('publication %%I sends rows of schema %%I to its subscribers, payloads among them',
                           t.pubname, t.schemaname),
           format('drop publication %%I;  -- or leave these tables out', t.pubname)
    from pg_publication_tables t where t.schemaname = any(%(ours)s) order by 1"""


def _compared(*which: str) -> Callable[[Scene], Iterable[Finding]]:
    return lambda scene: shape.compare(scene, *which)


RULES = (
    Rule(
        "structure.tables",
        "tables, columns, defaults and row security are what the migrations made",
        "pg_class, pg_attribute, pg_attrdef, pg_policy, pg_inherits and migrations/shape.txt",
        _compared("relations", "columns"),
    ),
    Rule(
        "structure.constraints",
        "so are checks, keys and indexes",
        "pg_constraint, pg_index and migrations/shape.txt",
        _compared("constraints"),
    ),
    Rule("structure.views", "so are views", "pg_get_viewdef, reloptions and migrations/shape.txt", _compared("views")),
    Rule(
        "structure.types",
        "so are types, and nobody adds operators or casts for them",
        "pg_type, pg_enum, pg_operator, pg_cast and migrations/shape.txt",
        _compared("types"),
    ),
    Rule("structure.catalog", "nobody has added a function to pg_catalog", "pg_proc, pg_depend", query(_CATALOG)),
    Rule(
        "structure.elsewhere",
        "no function or view of another schema opens Reproq's tables",
        "proowner, relowner, pg_depend of views' rules",
        query(_ELSEWHERE),
    ),
    Rule(
        "structure.published",
        "no publication sends Reproq's tables elsewhere",
        "pg_publication_tables",
        query(_PUBLISHED),
        severity=Severity.NOTE,
    ),
)
