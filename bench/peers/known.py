"""The peers: how each is installed and tuned, where it runs a job, and what a job that kills its process does.

The last column is what was seen with 440 s of watching; a full session watches again, for less long.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Peer:
    key: str  # unique, also the name of its figures: peer.<key>.noop
    title: str
    script: str
    environment: str
    isolation: str
    crash: str
    requirements: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()  # of npm
    variant: str = ""
    concurrency: int = 2
    needs_redis: bool = False
    rate: float = 1_000  # about, for the size of the first run
    factor: float | None = None  # how many times as fast we must be
    full: bool = False  # a variant for full sessions
    plain: bool = True  # as documented: also for other kinds of work, latency and crash


_ONE_PROCESS = "nothing: one asyncio process for all jobs"
_DIES = "the worker dies with all jobs in it"
_CELERY = {"script": "celery_app.py", "environment": "celery", "requirements": ("celery[redis]==5.7.0",)}
_HUEY = {"script": "huey_app.py", "environment": "huey", "requirements": ("huey==3.5.4", "redis")}
_PGQUEUER = {
    "script": "pgqueuer_app.py",
    "environment": "pgqueuer",
    "requirements": ("pgqueuer==1.6.0", "asyncpg", "uvloop"),
}
_GRAPHILE = {"script": "graphile.mjs", "environment": "graphile", "packages": ("graphile-worker@0.18.0", "pg@8")}
_CELERY_CRASH = "failed at once, never retried; siblings finish"
_HUEY_CRASH = "lost without a trace; siblings finish"
_PGQUEUER_CRASH = f"{_DIES}; picked again every 30 s, kills again, without limit"
_GRAPHILE_CRASH = f"{_DIES}; locked for 4 hours"

PEERS: tuple[Peer, ...] = (
    Peer(
        "procrastinate", "Procrastinate", "procrastinate_app.py", "procrastinate", _ONE_PROCESS,
        f"{_DIES}; stays `doing` for ever", ("procrastinate==3.10.0", "psycopg[binary,pool]"), rate=1_100, factor=15,
    ),
    Peer(
        "pgqueuer.batches", "PgQueuer in batches", isolation=_ONE_PROCESS, crash=_PGQUEUER_CRASH, variant="batches",
        rate=23_000, factor=1, plain=False, **_PGQUEUER,  # type: ignore[arg-type]
    ),
    Peer(
        "pgqueuer", "PgQueuer, 2 at a time", isolation=_ONE_PROCESS, crash=_PGQUEUER_CRASH, rate=900, full=True,
        **_PGQUEUER,  # type: ignore[arg-type]
    ),
    Peer(
        "celery", "Celery prefork, Redis", isolation="a long-lived child per slot", crash=_CELERY_CRASH, rate=1_500,
        factor=15, needs_redis=True, **_CELERY,  # type: ignore[arg-type]
    ),
    Peer(
        "celery.late", "Celery prefork, late acks", isolation="a long-lived child per slot",
        crash="redelivered and run again without limit; siblings finish", rate=1_400, factor=15, variant="acks_late",
        needs_redis=True, full=True, **_CELERY,  # type: ignore[arg-type]
    ),
    Peer(
        "rq", "RQ worker pool, Redis", "rq_app.py", "rq", "a forked process per job", "failed at once; siblings finish",
        ("rq==2.12.0",), needs_redis=True, rate=200, factor=80,
    ),
    Peer(
        "dramatiq", "Dramatiq, Redis", "dramatiq_app.py", "dramatiq", "worker processes with 8 threads each",
        "the worker ends; redelivered minutes later, kills again", ("dramatiq[redis]==2.2.1",), needs_redis=True,
        rate=4_000, factor=3,
    ),
    Peer(
        "huey.8", "Huey, 8 processes, Redis", isolation="a long-lived worker process", crash=_HUEY_CRASH, rate=7_000,
        factor=3, concurrency=8, needs_redis=True, plain=False, **_HUEY,  # type: ignore[arg-type]
    ),
    Peer(
        "huey", "Huey, 2 processes, Redis", isolation="a long-lived worker process", crash=_HUEY_CRASH, rate=5_000,
        needs_redis=True, full=True, **_HUEY,  # type: ignore[arg-type]
    ),
    Peer(
        "graphile", "Graphile Worker", isolation="nothing: one Node process", crash=_GRAPHILE_CRASH, rate=3_500,
        **_GRAPHILE,  # type: ignore[arg-type]
    ),
    Peer(
        "graphile.tuned", "Graphile Worker, tuned", isolation="nothing: one Node process", crash=_GRAPHILE_CRASH,
        variant="tuned", rate=60_000, plain=False, **_GRAPHILE,  # type: ignore[arg-type]
    ),
)  # fmt: skip
