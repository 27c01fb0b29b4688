"""Flags for settings, from the one table in reproq.config. Values pass as text: config reads and judges them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from reproq import log
from reproq.config import Settings, SettingsError, load, secrets
from reproq.config.options import BY_FIELD

Function = TypeVar("Function", bound=Callable[..., Any])

_SWITCHES = {"embedded", "until_empty", "no_migrate", "strict_env", "leave_unknown", "log_payloads"}
_REPEATED = {"queues": "NAME", "prefixes": "PREFIX", "app": "MODULE", "child_env": "NAME"}
_HELP = {
    "database_url": ("URL", "PostgreSQL, e.g. postgresql://user:password@host/shop."),
    "embedded": ("", "Use an own PostgreSQL in a folder; no server needed."),
    "embedded_dir": ("DIR", "Folder of the embedded server; its data survives restarts."),
    "queues": ("NAME", "Serve this queue (repeatable; none = every queue)."),
    "prefixes": ("PREFIX", "Serve types that start with this (repeatable; none = every type)."),
    "app": ("MODULE", "Module with your @task functions, as you would import it (repeatable)."),
    "processes": ("N", "Child processes, each running one task at a time (default: cores)."),
    "recycle": ("N", "Replace a child after N tasks (default 50000; 1 = a fresh one per task; 0 = never)."),
    "max_memory": ("SIZE", "Replace a child that has grown beyond this, e.g. 512MiB (default 1GiB; 0 = never)."),
    "lease_s": ("TIME", "How long a claim holds without a heartbeat (default 30s)."),
    "heartbeat_s": ("TIME", "How often claims are renewed (default 10s; three must fit into a lease)."),
    "poll_interval_s": ("TIME", "How often an idle worker looks for work nobody woke it for (default 1s)."),
    "drain_timeout_s": ("TIME", "How long running tasks may go on after SIGTERM (default 30s)."),
    "kill_grace_s": ("TIME", "Between SIGTERM and SIGKILL for a task that must stop (default 5s)."),
    "system_processes": ("N", "Child processes for db_function, email and sms (default 2)."),
    "worker_id": ("NAME", "Name part of this worker's id (default: the host name)."),
    "worker_timeout_s": ("TIME", "When a silent worker counts as dead (default 3 leases)."),
    "until_empty": ("", "End with status 0 when nothing is left to do."),
    "no_migrate": ("", "Never change the schema; refuse to start when it is missing or old."),
    "migrate_url": ("URL", "A login that may migrate, if the worker's own may not."),
    "role_prefix": ("PREFIX", "Prefix of the server's roles, for independent installations, e.g. acme_."),
    "child_env": ("NAME", "Hand this variable to children although it is the worker's own (repeatable)."),
    "strict_env": ("", "Children get only PATH, HOME, LANG and the like, and what --child-env names."),
    "leave_unknown": ("", "Leave tasks of types without a handler alone (rolling deploys)."),
    "max_envelope": ("SIZE", "Longest answer of a task (default 16MiB)."),
    "max_in_flight": ("SIZE", "Payloads and results that may wait in the worker's memory (default 64MiB)."),
    "metrics_address": (
        "HOST:PORT",
        "Serve /livez, /readyz and /metrics, e.g. at 127.0.0.1:9187 (default: nowhere).",
    ),
    "log_payloads": ("", "Allow payloads in the log."),
    "log_level": ("LEVEL", "debug, info, warning or error (default info)."),
}
WORKER = tuple(_HELP)
_CONFIG_HELP = "Settings file (default: reproq.toml in the working directory)."


def settings_options(*fields: str) -> Callable[[Function], Function]:
    """Add the flags of these settings, and --config."""

    def decorate(function: Function) -> Function:
        function = click.option("--config", "config", metavar="FILE", help=_CONFIG_HELP)(function)
        for field in reversed(fields):
            function = _option(field)(function)
        return function

    return decorate


def _option(field: str) -> Callable[[Function], Function]:
    metavar, text = _HELP[field]
    names = [BY_FIELD[field].flag, field]
    if field == "database_url":
        names.insert(1, "--dsn")
    if field in _SWITCHES:
        return click.option(*names, is_flag=True, help=text)
    return click.option(*names, metavar=metavar, multiple=field in _REPEATED, help=text)


def database_address(flags: dict[str, Any]) -> str:
    """For commands that need an address and nothing else of the settings."""
    settings = loaded(flags, need_database=False)
    if settings.database_url is None:
        raise SettingsError(
            "no database: give --database-url postgresql://… or set REPROQ_DATABASE_URL "
            "(a worker with --embedded prints its own)"
        )
    return settings.database_url


def loaded(flags: dict[str, Any], *, worker: bool = False, need_database: bool = True) -> Settings:
    """Settings from flags, environment and file; from here on no output holds one of their secrets."""
    config = flags.pop("config", None)
    settings = load(flags, os.environ, config, worker=worker, need_database=need_database)
    log.hide(secrets(os.environ, settings))
    return settings
