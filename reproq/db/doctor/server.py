"""Settings of server, database and logins that contradict what Reproq promises, or that stop its workers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

from reproq.db.doctor.rule import Finding, Rule, Severity, query
from reproq.db.doctor.scene import Scene
from reproq.db.security.logins import LOGINS

WORKER_SESSIONS = 4  # claims, finishes, heartbeat, and house where it leads; each system child has one more
MOST_SKEW_S = 2.0
_FACTOR_MS = {"us": 0.001, "ms": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6, "d": 8.64e7}

_DURABLE = """
    select format('%%s is off: a crash of the server may lose tasks that were committed, or break its data', s.name),
           format('alter system set %%s = on; select pg_reload_conf();', s.name)
    from pg_settings s where s.name in ('fsync', 'full_page_writes') and s.setting = 'off' order by 1"""
# What sessions of each of our logins begin with: the login's own setting, in this database before elsewhere.
_EFFECTIVE = f"""{LOGINS}, effective as (
        select l.rolname, p.name, f.value, f.by_role, f.by_database
        from ours l cross join unnest(%(names)s::text[]) as p(name)
        cross join lateral (
            select substr(c, length(p.name) + 2) as value, s.setrole <> 0 as by_role, s.setdatabase <> 0 as by_database
            from pg_db_role_setting s cross join unnest(s.setconfig) c
            where starts_with(c, p.name || '=') and s.setrole in (l.oid, 0)
              and s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
            union all
            select b.reset_val || coalesce(b.unit, ''), false, false from pg_settings b
            where b.name = p.name and b.source not in ('client', 'session', 'user', 'database', 'database user')
            order by 2 desc, 3 desc limit 1) f
    )
    select rolname::text, name, value, case
        when by_role then format('alter role %%I%%s reset %%s;', rolname,
            case when by_database then format(' in database %%I', current_database()) else '' end, name)
        when by_database then format('alter database %%I reset %%s;', current_database(), name)
        else format('alter system reset %%s; select pg_reload_conf();', name) end
    from effective order by 1, 2"""
_STANDBY = """
    select 'this server is a standby: it takes no task', 'name the primary, or all servers with'
           ' target_session_attrs=read-write: postgresql://…@one,two/shop?target_session_attrs=read-write'
    where pg_is_in_recovery()"""
_FULL = """
    select format('%%s of the server''s %%s connections are in use; a worker needs 4, and one for each system child',
                  u.used, m.most),
           format('alter system set max_connections = %%s;  -- and restart the server', m.most * 2)
    from (select count(*) as used from pg_stat_activity where backend_type = 'client backend') u
    cross join (select current_setting('max_connections')::integer
                - current_setting('superuser_reserved_connections')::integer as most) m
    where u.used > 0.8 * m.most
    union all
    select format('database %%I takes %%s connections at most', d.datname, d.datconnlimit),
           format('alter database %%I connection limit -1;', d.datname)
    from pg_database d where d.datname = current_database() and d.datconnlimit between 0 and %(sessions)s + 1"""
_LIMITED = f"""{LOGINS}
    select format('login %%I may have %%s connections, and one worker needs %%s', l.rolname, r.rolconnlimit,
                  %(sessions)s + 2),
           format('alter role %%I connection limit -1;', l.rolname)
    from ours l join pg_roles r on r.oid = l.oid where r.rolconnlimit between 0 and %(sessions)s + 1 order by 1"""


def _durable(scene: Scene) -> Iterable[Finding]:
    yield from query(_DURABLE)(scene)
    for login, _name, value, fix in scene.ask(_EFFECTIVE, names=["synchronous_commit"]):
        if value in ("off", "false", "no", "0"):
            yield Finding(
                f"synchronous_commit is off for {login}: a crash of the server may lose what was just committed", fix
            )


def _read_only(scene: Scene) -> Iterable[Finding]:
    yield from query(_STANDBY)(scene)
    for login, name, value, fix in scene.ask(_EFFECTIVE, names=["default_transaction_read_only"]):
        if value in ("on", "true", "yes", "1"):
            yield Finding(f"sessions of {login} are read-only ({name}): no task can be stored or claimed", fix)


# Shorter than this, and a worker's own statements are cut off, or its idle connections closed again and again.
_SHORTEST_MS = {
    "statement_timeout": (5e3, "claims and finishes of a busy hour are cut off"),
    "transaction_timeout": (5e3, "claims and finishes of a busy hour are cut off"),
    "lock_timeout": (1e3, "finishes give up where a row is locked for a moment"),
    "idle_session_timeout": (6e4, "an idle worker's connections are closed and opened again without end"),
}


def _timeouts(scene: Scene) -> Iterable[Finding]:
    for login, name, value, fix in scene.ask(_EFFECTIVE, names=list(_SHORTEST_MS)):
        shortest, hurts = _SHORTEST_MS[name]
        if 0 < _milliseconds(value) < shortest:
            yield Finding(f"{name} is {value} for {login}: {hurts}", fix)


def _milliseconds(value: str) -> float:
    found = re.fullmatch(r"\s*([0-9.]+)\s*(us|ms|s|min|h|d)?\s*", value)
    return float(found[1]) * _FACTOR_MS[found[2] or "ms"] if found else 0.0


def _connections(scene: Scene) -> Iterable[Finding]:
    for statement in (_FULL, _LIMITED):
        for what, fix in scene.ask(statement, sessions=WORKER_SESSIONS):
            yield Finding(what, fix)


def _clock(scene: Scene) -> Iterable[Finding]:
    before = time.time()
    ((there,),) = scene.ask("select extract(epoch from clock_timestamp())::float8")
    after = time.time()
    skew = float(there) - (before + after) / 2
    if abs(skew) > MOST_SKEW_S + (after - before):
        yield Finding(
            f"the server's clock is {abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} this host's: leases and"
            " schedules go by the server's alone, but logs and times that people compare don't agree",
            "timedatectl set-ntp true  # on both hosts",
        )


RULES = (
    Rule(
        "server.durable",
        "what is committed survives a crash",
        "fsync, full_page_writes; synchronous_commit of server, database and logins",
        _durable,
    ),
    Rule(
        "server.writable",
        "the server takes writes",
        "pg_is_in_recovery(), default_transaction_read_only",
        _read_only,
    ),
    Rule(
        "server.timeouts",
        "no time limit of server, database or login stops a worker",
        "statement_, transaction_, lock_ and idle_session_timeout of each login",
        _timeouts,
        severity=Severity.WARNING,
    ),
    Rule(
        "server.connections",
        "there are connections left for workers",
        "max_connections, pg_stat_activity, connection limits",
        _connections,
        severity=Severity.WARNING,
    ),
    Rule(
        "server.clock",
        "this host's clock agrees with the server's",
        "clock_timestamp() against the clock of this host",
        _clock,
        severity=Severity.WARNING,
    ),
)
