"""No connection came about: what to do now. libpq says why in English words only; the first that fits counts."""

from __future__ import annotations

import re
from typing import NamedTuple


class _WayOut(NamedTuple):
    pattern: str
    fix: str


_WAYS_OUT = (
    _WayOut(
        "password authentication failed|no password supplied|SASL authentication",
        "mind user and password of the address (special characters percent-encoded); an administrator sets one with"
        " alter role … password '…'",
    ),
    _WayOut(
        r'database "[^"]*" does not exist',
        "mind its name, or as an administrator: create database …; then reproq migrate",
    ),
    _WayOut(r'role "[^"]*" does not exist', "mind its name, or as an administrator: create role … login password '…'"),
    _WayOut(
        r"no pg_hba\.conf entry",
        "let this host, login and database in by the server's pg_hba.conf, then select pg_reload_conf()",
    ),
    _WayOut("not permitted to log in", "as an administrator: alter role … login"),
    _WayOut("permission denied for database", "as an administrator: grant connect on database … to …"),
    _WayOut(
        "could not translate host name|Name or service not known|failed to resolve|No address associated",
        "mind the host name of the address; getent hosts NAME says whether this host can resolve it",
    ),
    _WayOut(
        "onnection refused|No such file or directory",
        "start PostgreSQL, or mind host and port of the address; pg_isready -h HOST -p PORT says whether it listens",
    ),
    _WayOut("timeout|timed out|No route to host|unreachable", "mind host, port and firewalls: no answer came back"),
    _WayOut(
        "too many clients|remaining connection slots|too many connections",
        "end some sessions, raise max_connections, or put a pooler before the server",
    ),
    _WayOut(
        "starting up|shutting down|recovery mode|not yet accepting connections|closed the connection unexpectedly",
        "wait: the server is on its way up or down",
    ),
    _WayOut("SSL|certificate", "mind sslmode and sslrootcert of the address"),
)
_OTHERWISE = "mind the address: postgresql://user:password@host:5432/database"


_NEVER_CAME_ABOUT = ("connection failed", "connection is bad", "connection timeout expired", "failed to resolve host")


def way_out(problem: str) -> str:
    """The next step for an error of libpq's."""
    return next((way.fix for way in _WAYS_OUT if re.search(way.pattern, problem)), _OTHERWISE)


def came_about(problem: str) -> bool:
    """False for psycopg's words for a connection that was never opened, true for all other errors."""
    return not problem.startswith(_NEVER_CAME_ABOUT)
