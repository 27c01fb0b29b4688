"""The catalog of an installation as text: what is there, whose it is, how it runs, who may what.

    python -m tests.db.catalog      writes catalog.txt anew, and migrations/shape.txt for doctor (also: make catalog)

A change of it is a change of who may do what: it is read in review like code.
"""

from __future__ import annotations

from pathlib import Path

from reproq.db.connect import Connection, as_sql, connect
from reproq.db.doctor import look_around
from reproq.db.embedded import UNSAFE_AND_FAST, throwaway
from reproq.db.migration.files import default_folder
from reproq.db.security.shape import NAME, lines, written

GOLDEN = Path(__file__).with_name("catalog.txt")
SHAPE = default_folder() / NAME
_OURS = "n.nspname in ('queues', 'internal', 'comms')"
_RIGHTS = """
    coalesce((select string_agg(format('%s %s', coalesce(g.rolname, 'PUBLIC'), a.rights), ', ' order by g.rolname)
              from (select grantee, string_agg(privilege_type || case when is_grantable then '*' else '' end, '+'
                                               order by privilege_type) as rights
                    from aclexplode({acl}) where grantee <> {owner} group by grantee) a
              left join pg_roles g on g.oid = a.grantee), 'nobody')"""


def _rights(acl: str, owner: str) -> str:
    return _RIGHTS.format(acl=acl, owner=owner)


SECTIONS = {
    "roles": """
        select format('%s%s%s', rolname, case when rolcanlogin then ' LOGIN' end,
                      case when rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls
                           then ' MIGHTY' end)
        from pg_roles where rolname ~ '^(reproq_(owner|app|reader|dispatcher|process_author)|worker_service_user)$'""",
    "defaults": """
        select format('%s creates %s: %s', pg_get_userbyid(defaclrole), defaclobjtype, defaclacl)
        from pg_default_acl where pg_get_userbyid(defaclrole) = 'reproq_owner'""",
    "schemas": f"""
        select format('%s of %s: %s', n.nspname, pg_get_userbyid(n.nspowner),
                      {_rights("coalesce(n.nspacl, acldefault('n', n.nspowner))", "n.nspowner")})
        from pg_namespace n where {_OURS}""",
    "functions": f"""
        select format('%s returns %s of %s, %s %s [%s]: %s', p.oid::regprocedure, pg_get_function_result(p.oid),
                      pg_get_userbyid(p.proowner), case when p.prosecdef then 'definer' else 'invoker' end,
                      case p.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
                      array_to_string(p.proconfig, '; '),
                      {_rights("coalesce(p.proacl, acldefault('f', p.proowner))", "p.proowner")})
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace where {_OURS}""",
    "relations": f"""
        select format('%s %s of %s: %s', case c.relkind when 'r' then 'table' when 'v' then 'view'
                      when 'S' then 'sequence' else c.relkind::text end, c.oid::regclass, pg_get_userbyid(c.relowner),
                      {_rights("c.relacl", "c.relowner")})
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where {_OURS} and c.relkind not in ('i', 't', 'c')""",
    "columns of views": f"""
        select format('%s: %s', c.oid::regclass, string_agg(a.attname, ', ' order by a.attnum))
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 where {_OURS} and c.relkind = 'v' group by c.oid""",
    "columns with rights of their own": f"""
        select format('%s.%s: %s', c.oid::regclass, a.attname, a.attacl)
        from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
        where {_OURS} and a.attacl is not null""",
    "types": f"""
        select format('%s %s of %s: %s', case t.typtype when 'd' then 'domain' when 'e' then 'enum'
                      when 'c' then 'row' else 'type' end,
                      t.oid::regtype, pg_get_userbyid(t.typowner),
                      {_rights("coalesce(t.typacl, acldefault('T', t.typowner))", "t.typowner")})
        from pg_type t join pg_namespace n on n.oid = t.typnamespace
        where {_OURS} and t.typcategory <> 'A' and t.typtype <> 'm'""",
    "triggers": f"""
        select format('%s on %s runs %s %s', t.tgname, c.oid::regclass, t.tgfoid::regproc, t.tgenabled)
        from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
        where {_OURS} and not t.tgisinternal""",
}


def text(conn: Connection) -> str:
    conn.execute("set search_path = pg_catalog, pg_temp")
    parts = []
    for title, query in SECTIONS.items():
        lines = sorted(str(row[0]) for row in conn.execute(as_sql(query)).fetchall())
        parts.append("\n".join([f"# {title}", *(lines or ["(none)"]), ""]))
    return "\n".join(parts)


def shape(conn: Connection) -> str:
    return written(lines(look_around(conn)))


def main() -> None:
    with throwaway(UNSAFE_AND_FAST) as server:
        server.install(say=lambda _: None)
        with connect(server.admin_dsn, name="catalog") as conn:
            GOLDEN.write_text(text(conn))
            SHAPE.write_text(shape(conn))
    print(f"{GOLDEN} and {SHAPE} written")


if __name__ == "__main__":
    main()
