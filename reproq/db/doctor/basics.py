"""What has to be right before anything else is worth looking at."""

from __future__ import annotations

from collections.abc import Iterable

from reproq.db.doctor.rule import Finding, Rule, Severity, query
from reproq.db.doctor.scene import Scene, Unseen
from reproq.db.inspection import might_of_login
from reproq.db.migration import roles
from reproq.db.security.logins import LOGINS

OLDEST_SERVER = 140000
_NO_LOGIN = f"""{LOGINS}
    select format('no login has the role %%I: a worker can''t log in but as an administrator', %(worker)s::text),
           format('create role shop_worker login password ''…''; grant %%I to shop_worker;', %(worker)s::text)
    where %(installed)s and exists (select from pg_roles where rolname = %(worker)s::text)
      and not exists (
        select from ours l join reach r on r.login = l.oid join pg_roles g on g.oid = r.role
        where g.rolname = %(worker)s::text)"""


def _server(scene: Scene) -> Iterable[Finding]:
    if scene.server < OLDEST_SERVER:
        yield Finding(f"the server is PostgreSQL {scene.server // 10000}", "use PostgreSQL 14 or newer")


def _roles(scene: Scene) -> Iterable[Finding]:
    for name in roles.missing_roles(scene.conn, scene.files):
        yield Finding(
            f"the server has no role {name}", "reproq migrate, or as an administrator: reproq migrate --roles-sql"
        )


def _schema(scene: Scene) -> Iterable[Finding]:
    found = scene.state
    if not found.readable:
        raise Unseen("the version of the schema needs a login with GRANT worker_service_user")
    if found.installed is None:
        yield Finding("Reproq's schema isn't installed in this database", "reproq migrate")
    elif found.newer:
        yield Finding(
            f"the schema is version {found.installed}, newer than this code's {found.code}"
            + ("" if found.runnable else ": this code can't work with it"),
            "pip install --upgrade reproq  # here, and wherever workers run",
            Severity.WARNING if found.runnable else Severity.ERROR,
        )
    elif not found.current:
        yield Finding(
            f"the schema is version {found.installed} and not that of this code, {found.code}", "reproq migrate"
        )


def _login(scene: Scene) -> Iterable[Finding]:
    might = might_of_login(scene.conn)
    if might:
        yield Finding(
            f"the login {scene.conn.info.user} {might}",
            "give workers a login with worker_service_user and nothing else",
        )


BASICS = (
    Rule("server.version", "the server is PostgreSQL 14 or newer", "server_version", _server),
    Rule("schema.roles", "the server has Reproq's roles", "pg_roles", _roles),
    Rule("schema.version", "the schema is this code's", "internal.schema_state()", _schema),
    Rule(
        "login.might",
        "a worker's login isn't mightier than it needs",
        "the login of this very connection",
        _login,
        severity=Severity.NOTE,
    ),
    Rule(
        "login.worker",
        "a login has the worker's role",
        "pg_auth_members",
        query(_NO_LOGIN),
        severity=Severity.WARNING,
    ),
)
