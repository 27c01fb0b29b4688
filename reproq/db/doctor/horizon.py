"""Who holds the horizon back: rows that are dead to everybody else, and which no vacuum may take, because of them.

A claim skips over such rows again and again, and whole tables grow. Each with its number, and how to end it.
"""

from __future__ import annotations

from collections.abc import Iterable

from reproq.db.doctor.rule import Finding, Rule, Severity
from reproq.db.doctor.scene import Scene, Unseen

OLD_S = 300  # no statement or transaction of Reproq's lasts as long

_SESSIONS = """
    select format('session %%s (%%s, login %%s, %%s) has a transaction open for %%s and holds a snapshot',
                  a.pid, coalesce(nullif(a.application_name, ''), 'no application name'), a.usename, a.state,
                  date_trunc('second', clock_timestamp() - a.xact_start)),
           format('select pg_terminate_backend(%%s);', a.pid)
    from pg_stat_activity a
    where a.datname = current_database() and (a.backend_xmin is not null or a.backend_xid is not null)
      and a.xact_start < clock_timestamp() - %(old)s * interval '1 second' and a.pid <> pg_backend_pid()
      and a.backend_type = 'client backend'
    order by a.xact_start"""
# One without a snapshot holds nothing back but its locks.
_IDLE = """
    select format('session %%s (%%s, login %%s) has been idle inside a transaction for %%s, with its locks',
                  a.pid, coalesce(nullif(a.application_name, ''), 'no application name'), a.usename,
                  date_trunc('second', clock_timestamp() - a.state_change)),
           format('select pg_terminate_backend(%%s);  -- and set idle_in_transaction_session_timeout for %%I',
                  a.pid, a.usename)
    from pg_stat_activity a
    where a.datname = current_database() and a.state in ('idle in transaction', 'idle in transaction (aborted)')
      and a.backend_xmin is null and a.backend_xid is null
      and a.state_change < clock_timestamp() - %(old)s * interval '1 second' and a.pid <> pg_backend_pid()
    order by a.state_change"""
_PREPARED = """
    select format('prepared transaction %%s of %%s stands since %%s, with its snapshot and locks', x.gid, x.owner,
                  date_trunc('second', x.prepared)),
           format('rollback prepared %%L;  -- or commit prepared; in database %%I', x.gid, x.database)
    from pg_prepared_xacts x
    where x.database = current_database() and x.prepared < clock_timestamp() - %(old)s * interval '1 second'
    order by x.prepared"""
_SLOTS = """
    select format('replication slot %%s (%%s) is inactive%%s: it keeps write-ahead log%%s', s.slot_name, s.slot_type,
                  case when s.restart_lsn is null then '' else format(' and %%s behind', pg_size_pretty(
                      pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_replay_lsn()
                                           else pg_current_wal_lsn() end, s.restart_lsn))) end,
                  case when coalesce(s.xmin, s.catalog_xmin) is null then '' else ' and dead rows' end),
           format('select pg_drop_replication_slot(%%L);  -- if nobody comes back for it', s.slot_name)
    from pg_replication_slots s where not s.active and not s.temporary and s.restart_lsn is not null order by 1"""


def _sessions(scene: Scene) -> Iterable[Finding]:
    for statement in (_SESSIONS, _IDLE):
        for what, fix in scene.ask(statement, old=OLD_S):
            yield Finding(what, fix)
    ((sees_all,),) = scene.ask("select pg_has_role('pg_read_all_stats', 'USAGE')")
    if not sees_all:
        raise Unseen("sessions of other logins (pg_stat_activity): ask as an administrator or with pg_read_all_stats")


def _prepared(scene: Scene) -> Iterable[Finding]:
    for what, fix in scene.ask(_PREPARED, old=OLD_S):
        yield Finding(what, fix)


def _slots(scene: Scene) -> Iterable[Finding]:
    for what, fix in scene.ask(_SLOTS):
        yield Finding(what, fix)


RULES = (
    Rule(
        "horizon.sessions",
        "no session has kept a transaction open for minutes",
        "backend_xmin, xact_start and state of pg_stat_activity",
        _sessions,
        severity=Severity.WARNING,
    ),
    Rule(
        "horizon.prepared",
        "no prepared transaction is left",
        "pg_prepared_xacts",
        _prepared,
        severity=Severity.WARNING,
    ),
    Rule(
        "horizon.slots",
        "no replication slot waits for somebody who is gone",
        "pg_replication_slots",
        _slots,
        severity=Severity.WARNING,
    ),
)
