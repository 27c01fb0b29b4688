"""The workers: is everything served, does one keep house, are they of one version?"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from reproq.db.doctor.rule import Finding, Rule, Severity
from reproq.db.doctor.scene import Scene

SILENT_S = 90  # a worker's row is taken after three leases; they are 30 s unless set otherwise

_UNSERVED = """
    select u.queue_name, u.task_type, date_trunc('second', u.waiting)::text
    from queues.unserved(%(silent)s * interval '1 second') u order by u.waiting desc limit 100"""
_LEADER = """
    select case when l.until = '-infinity' then 'ever' else date_trunc('second', clock_timestamp() - l.until)::text end
    from queues.leader l
    where l.until < clock_timestamp() - interval '30 seconds' and exists (
        select from queues.workers w where w.last_heartbeat > clock_timestamp() - %(silent)s * interval '1 second'
        and w.started_at < clock_timestamp() - interval '30 seconds')"""
_VERSIONS = """
    select w.version, count(*), string_agg(substring(w.id from '^(.*)/[^/]*$'), ', ' order by w.id)
    from queues.workers w where w.last_heartbeat > clock_timestamp() - %(silent)s * interval '1 second'
    group by w.version order by 2 desc, 1"""
_SILENT = """
    select substring(w.id from '^(.*)/[^/]*$'), w.hostname,
           date_trunc('second', clock_timestamp() - w.last_heartbeat)::text
    from queues.workers w where w.last_heartbeat < clock_timestamp() - %(silent)s * interval '1 second'
    order by w.last_heartbeat limit 100"""


def _unserved(scene: Scene) -> Iterable[Finding]:
    if not scene.installed:
        return
    for queue, task_type, waiting in scene.look(_UNSERVED, silent=SILENT_S):
        yield Finding(
            f"{task_type} in queue {queue} has been ready for {waiting}, and no live worker serves it",
            _worker_for(queue, task_type),
        )


def _worker_for(queue: str, task_type: str) -> str:
    start = f"reproq worker --queue {shlex.quote(queue)}"
    if task_type in ("email", "sms"):
        return f"REPROQ_{task_type.upper()}_PROVIDER=… {start}  # and the provider's settings, or add them to a worker"
    if task_type == "db_function":
        return f"{start}  # with --system-processes 1 or more"
    prefix = task_type.rpartition(".")[0] + "." if "." in task_type else task_type
    return f"{start} --type-prefix {shlex.quote(prefix)} --app your_module  # or add both to a worker that runs"


def _leader(scene: Scene) -> Iterable[Finding]:
    if not scene.installed:
        return
    for (since,) in scene.look(_LEADER, silent=SILENT_S):
        yield Finding(
            f"workers live, and none of them has kept house {'yet' if since == 'ever' else 'for ' + since}: no schedule"
            " fires, and nothing is cleaned up",
            "look for house_… in the workers' logs; restart one of them",
        )


def _versions(scene: Scene) -> Iterable[Finding]:
    if not scene.installed:
        return
    rows = scene.look(_VERSIONS, silent=SILENT_S)
    for version, _count, workers in rows[1:]:
        yield Finding(
            f"version {version} runs in {workers}, and {rows[0][0]} elsewhere: fine during a deploy",
            "restart those of the older version with the newer code",
        )


def _silent(scene: Scene) -> Iterable[Finding]:
    if not scene.installed:
        return
    for name, host, since in scene.look(_SILENT, silent=SILENT_S):
        yield Finding(
            f"worker {name} on {host} was last heard {since} ago: it was killed, or can't reach the database",
            f"look at its log on {host}; its tasks are taken over, and a leader removes its row",
        )


RULES = (
    Rule(
        "workers.served",
        "whatever is ready is served by a live worker",
        "queues.unserved()",
        _unserved,
    ),
    Rule(
        "workers.leader",
        "one of the live workers keeps house",
        "queues.leader, queues.workers",
        _leader,
    ),
    Rule(
        "workers.versions",
        "live workers are of one version",
        "queues.workers",
        _versions,
        severity=Severity.WARNING,
    ),
    Rule(
        "workers.silent",
        "no worker has fallen silent",
        "last_heartbeat of queues.workers",
        _silent,
        severity=Severity.WARNING,
    ),
)
