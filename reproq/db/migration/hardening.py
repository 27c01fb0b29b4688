"""What a database gives everybody, and belongs to the user's application: taken away on request only.

Reproq's own functions hold with it (they are attacked so by tests); without it a stolen login has less to play with.
"""

from __future__ import annotations

from collections.abc import Callable

from psycopg import sql

from reproq.db.connect import Connection, as_sql
from reproq.db.errors import MigrationRefused

# Logins that have the right by PUBLIC alone: not as owner or superuser, and by no grant to them or to a role of theirs.
_LOSERS = """
    select l.rolname::text from pg_catalog.pg_roles l
    where l.rolcanlogin and not l.rolsuper and not pg_catalog.pg_has_role(l.oid, %(owner)s::oid, 'USAGE')
      and not exists (
        select from pg_catalog.aclexplode(%(acl)s::aclitem[]) a
        where a.grantee <> 0 and a.privilege_type = %(right)s and pg_catalog.pg_has_role(l.oid, a.grantee, 'USAGE'))
    order by 1"""
_DATABASE = """
    select d.datdba, coalesce(d.datacl, pg_catalog.acldefault('d', d.datdba))::text, d.datname::text
    from pg_catalog.pg_database d where d.datname = pg_catalog.current_database()"""
_PUBLIC = """
    select n.nspowner, coalesce(n.nspacl, pg_catalog.acldefault('n', n.nspowner))::text, n.nspname::text
    from pg_catalog.pg_namespace n where n.nspname = 'public'"""
_HELD = """
    select exists (select from pg_catalog.aclexplode(%(acl)s::aclitem[]) a
                   where a.grantee = 0 and a.privilege_type = %(right)s)"""
_WAYS = (
    ("TEMPORARY", "temporary tables in database", _DATABASE, "revoke temporary on database {} from public"),
    ("CREATE", "objects in schema", _PUBLIC, "revoke create on schema {} from public"),
)


def harden(conn: Connection, say: Callable[[str], None]) -> list[str]:
    """Returns the statements that were run; none where everybody had nothing."""
    done = []
    for right, what, look, statement in _WAYS:
        for owner, acl, name in conn.execute(as_sql(look)).fetchall():
            known = {"owner": owner, "acl": acl, "right": right}
            if conn.execute(_HELD, known).fetchone() != (True,):
                continue
            losers = [str(row[0]) for row in conn.execute(_LOSERS, known).fetchall()]
            say(f"harden: nobody but its owner may create {what} {name} any more; {_those(losers)}")
            command = sql.SQL(as_sql(statement)).format(sql.Identifier(str(name)))
            conn.execute(command)
            if conn.execute(as_sql(look)).fetchall() == [(owner, acl, name)]:  # no owner: the server only warns
                raise MigrationRefused(
                    f"login {conn.info.user} may not change what everybody may do with {name}: run `reproq migrate"
                    " --harden-database` as its owner or as a superuser"
                )
            done.append(command.as_string(conn))
    if not done:
        say("harden: nothing to do: everybody may create neither temporary tables nor objects in schema public")
    return done


def _those(losers: list[str]) -> str:
    if not losers:
        return "no login loses it"
    return f"these logins lose it: {', '.join(losers)} (give it back with GRANT where one needs it)"
