"""Does the rate stay what it is on an empty table? Each row's base was measured a moment before, in the same way."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reproq.bench import app_many
from reproq.bench import worker as workers
from reproq.bench.drain import Plan, Run, drain, windows
from reproq.bench.figures import Figure, LeftOut, Step, Values, at_least
from reproq.bench.lab import Database, Lab
from reproq.bench.ours.throughput import NOOP_FLAGS, NOOP_GUESS
from reproq.bench.statements import statement

SECTION = "Flatness"
RUN_S = 8.0
_START_S = 10.0  # in which a run is enqueued and four workers start
_CHILDREN = (1, 4, 8, 16)
_WAL_OF_A_MINUTE = 40  # pieces of 100 MB
_PIECES_OF_A_MINUTE = 6
Prepare = Callable[[Lab, Database], int]
"""Puts tasks into a fresh database; answers the last id."""


def _rate(
    lab: Lab,
    prepare: Prepare,
    flags: tuple[str, ...] = (),
    app: str = workers.APP,
    crew: int = 1,
    start_s: float = 0,
) -> Run:
    with lab.database("flat") as database:
        last = prepare(lab, database)
        done = drain(lab, database, Plan(last, start_s + lab.seconds(RUN_S), (*NOOP_FLAGS, *flags), app, crew))
        if crew > 1:
            done.details["each"] = [count for _worker, count in database.ask("per_worker")]
    if done.details["odd"]:
        raise LeftOut(f"{done.details['odd']} of {done.done} tasks failed or ran more than once")
    return done


def _tasks(lab: Lab) -> int:
    return lab.size("ours.noop", NOOP_GUESS, RUN_S)


def _empty(lab: Lab, database: Database, delay_s: float = 0) -> int:
    last = database.enqueue(_tasks(lab), delay_s=delay_s)
    database.settle()
    return last


def _together(lab: Lab, crew: int) -> Run:
    """Due when all workers have been started: what their starts cost isn't what they cost one another."""
    start_s = lab.seconds(_START_S, 4)
    return _rate(lab, lambda lab, database: _empty(lab, database, start_s), crew=crew, start_s=start_s)


def _row(key: str, title: str, bound: float, prepare: Prepare, seconds: float = 40, **more: object) -> Step:
    def measure(lab: Lab) -> Values:
        base = _rate(lab, _empty)
        lab.rates["ours.noop"] = base.rate
        done = _rate(lab, prepare, **more)  # type: ignore[arg-type]
        return {key: done.rate, f"{key}.empty": base.rate, "detail": {**done.details, "empty": base.details}}

    figure = Figure(key, title, "/s", f"{key}.empty", against_title="empty table", bound=at_least(bound))
    return Step(f"flat: {title}", SECTION, measure, [figure], seconds, repeats=1, full=True)


def _beside(count: int, task_type: str, **more: object) -> Prepare:
    """Tasks of ours beside many rows that aren't."""

    def prepare(lab: Lab, database: Database) -> int:
        database.fill(lab.count(count), task_type, **more)  # type: ignore[arg-type]
        return _empty(lab, database)

    return prepare


def _held_up(lab: Lab, database: Database) -> int:
    """Ahead of ours in the same queue: tasks that wait for a pause to end, and for a rate."""
    for task_type in ("bench.cpu", "bench.mark"):
        database.fill(lab.count(100_000), task_type, priority=10)
    database.run("hold_up")
    return _empty(lab, database)


def _million_ready(lab: Lab, database: Database) -> int:
    last = database.enqueue(lab.count(1_000_000))
    database.settle()
    return last


def _spread(count: int, **names: Callable[[int], object]) -> Prepare:
    """The tasks in `count` groups, one call for each."""

    def prepare(lab: Lab, database: Database) -> int:
        each, last = max(1, _tasks(lab) // count), 0
        for number in range(count):
            last = database.enqueue(each, **{name: value(number) for name, value in names.items()})  # type: ignore[arg-type]
        database.settle()
        return last

    return prepare


def _by_turns(lab: Lab, database: Database) -> int:
    last = _empty(lab, database)
    database.run("types_by_turns")
    database.settle()
    return last


def _stale_low(lab: Lab, database: Database) -> int:
    """Statistics from when there was a thousandth of it."""
    database.run("no_autovacuum")
    database.enqueue(max(1, _tasks(lab) // 1000))
    database.settle()
    return database.enqueue(_tasks(lab))


def _stale_high(lab: Lab, database: Database) -> int:
    """Statistics from when there was a thousand times as much: the table was full of ready rows, all gone now."""
    database.run("no_autovacuum")
    database.fill(lab.count(1_000_000), "bench.noop")
    database.settle()
    database.run("forget_all")
    return database.enqueue(1000)


def stale_high(lab: Lab) -> Values:
    """Both with a backlog of a thousand that is kept up, or a thousandth couldn't last."""
    key = "flat.stale.high"
    base = _fed(lab, _grown_up, 1000)
    done = _fed(lab, _stale_high, 1000)
    return {key: done.rate, f"{key}.empty": base.rate, "detail": {**done.details, "empty": base.details}}


def _grown_up(lab: Lab, database: Database) -> int:
    """A table whose size and statistics call for the right plans."""
    database.fill(50_000, "bench.noop", status="SUCCESSFUL")
    last = database.enqueue(1000)
    database.settle()
    return last


def newborn(lab: Lab) -> Values:
    """A worker that starts when there is almost nothing makes its plans then; the table grows under it."""
    key = "flat.newborn"
    base = _fed(lab, _grown_up, 1000)
    done = _fed(lab, lambda _lab, database: database.enqueue(1000), 1000)
    return {key: done.rate, f"{key}.empty": base.rate, "detail": {**done.details, "empty": base.details}}


def _fed(lab: Lab, prepare: Prepare, backlog: int) -> Run:
    """While a worker runs, what it took is put back."""
    with lab.database("fed") as database:
        feeder = _Feeder(database, backlog, prepare(lab, database))
        return drain(lab, database, Plan(_NEVER, lab.seconds(RUN_S), NOOP_FLAGS, meanwhile=feeder.feed))


_NEVER = -1  # no row has this id: see last_is_over.sql


class _Feeder:
    """Keeps at least so many tasks ready. Whether the row that far from the end is taken is asked by its key: counting
    would read the index's dead entries, which are the worker's to deal with."""

    def __init__(self, database: Database, backlog: int, last: int = 0) -> None:
        self._database = database
        self._backlog = backlog
        self._chunk = min(10_000, backlog)
        self._last = last
        while self._last < backlog:
            self.add()

    def feed(self) -> None:
        """One chunk at most, so that whoever calls keeps the time."""
        if self._database.one("is_claimed", self._last - self._backlog + 1):
            self.add()

    def add(self) -> None:
        self._last = self._database.enqueue(self._chunk)


def sustained(lab: Lab) -> Values:
    """A minute without a pause: its last ten seconds against its first."""
    seconds, piece = lab.seconds(60, 4), lab.seconds(10, 1)
    with lab.database("sustained") as database:
        last = database.enqueue(lab.size("ours.noop", NOOP_GUESS, 70))
        _age(database, lab.count(_WAL_OF_A_MINUTE, 1))
        database.settle()
        done = drain(lab, database, Plan(last, seconds + 1, NOOP_FLAGS))
        rates = windows(database, done.started, piece)
    if len(rates) < 2:
        raise LeftOut(f"the tasks were used up after {done.details['seconds']} s")
    return {"flat.minute": rates[-1], "flat.minute.empty": rates[0], "detail": {**done.details, "each": rates}}


def _age(database: Database, pieces: int) -> None:
    """A server that has been running writes into WAL files that it has. A new one makes each, which costs a tenth."""
    for _ in range(pieces if database.server.embedded else 0):
        database.run("use_wal")


def held(lab: Lab) -> Values:
    """A REPEATABLE READ session that stays open while a worker is kept busy; ten seconds before it are the base."""
    piece = lab.seconds(10, 1)
    length = lab.seconds(600, 4)
    with lab.database("held") as database:
        feeder = _Feeder(database, lab.size("ours.noop", NOOP_GUESS, 4))
        _age(database, lab.count(_WAL_OF_A_MINUTE, 1))
        database.settle()
        with _snapshot(database, after_s=2 * piece + 1, room_gb=15) as look:

            def meanwhile() -> None:
                feeder.feed()
                look()

            done = drain(lab, database, Plan(_NEVER, 2 * piece + length, NOOP_FLAGS, meanwhile=meanwhile))
        rates = windows(database, done.started, piece)
    if len(rates) < 4:
        raise LeftOut(f"only {len(rates)} pieces of {piece:g} s were measured")
    after = rates[2:]
    two_minutes = min(len(after), 12)
    return {
        "flat.held.120": statistics.fmean(after[max(0, two_minutes - 3) : two_minutes]),
        "flat.held.600": statistics.fmean(after[-_PIECES_OF_A_MINUTE:]),  # a look from the heads takes seconds by then
        "flat.held.empty": max(rates[:2]),
        "detail": {**done.details, "each": rates},
    }


@contextmanager
def _snapshot(database: Database, after_s: float, room_gb: float) -> Iterator[Callable[[], None]]:
    """Opens an old snapshot some time after the first look; stops the run before the disk is full."""
    folder = database.server.folder
    with database.server.connect(database.name) as connection:
        began: list[float] = []

        def look() -> None:
            began.append(time.monotonic()) if not began else None
            if folder and shutil.disk_usage(folder).free < room_gb * 1e9:
                raise LeftOut(f"less than {room_gb:g} GB are free where the server's data lies")
            if connection.info.transaction_status.name == "IDLE" and time.monotonic() > began[0] + after_s:
                connection.execute("begin isolation level repeatable read")
                connection.execute(statement("unfinished"), [0])

        yield look


def workers_together(lab: Lab) -> Values:
    base = _together(lab, crew=1)
    lab.rates["ours.noop"] = base.rate
    done = _together(lab, crew=4)
    each = done.details["each"]
    if len(each) < 4:
        raise LeftOut(f"only {len(each)} of 4 workers got a task: {each}")
    key = "flat.workers"
    return {
        key: done.rate,
        f"{key}.empty": base.rate,
        f"{key}.least": min(each) / (sum(each) / 4),
        "detail": done.details,
    }


def by_children(lab: Lab) -> Values:
    """What more or fewer children change, where a task takes no time."""
    runs = {count: _rate(lab, _empty, flags=("--processes", str(count))) for count in (2, *_CHILDREN)}
    found: Values = {f"flat.children.{count}": run.rate for count, run in runs.items()}
    return found | {"detail": {str(count): run.details for count, run in runs.items()}}


def spread_of_noops(lab: Lab) -> Values:
    rates = [_rate(lab, _empty).rate for _ in range(5)]
    return {"flat.repeats": min(rates), "flat.repeats.empty": max(rates), "detail": {"each": rates}}


def _pair(key: str, title: str, bound: float, against: str, name: str | None = None) -> Figure:
    return Figure(key, title, "/s", name or f"{key}.empty", against_title=against, bound=at_least(bound))


def _single(name: str, run: Callable[[Lab], Values], figures: list[Figure], seconds: float) -> Step:
    return Step(f"flat: {name}", SECTION, run, figures, seconds, repeats=1, full=True)


_UNSERVED = _beside(1_000_000, "other.unserved", priority=10)
STEPS = (
    _row(
        "flat.future",
        "1 million future tasks of higher priority",
        0.9,
        _beside(1_000_000, "bench.noop", priority=10, delay_s=86_400),
    ),
    _row(
        "flat.unserved",
        "1 million ready tasks of unserved types, of higher priority",
        0.9,
        _UNSERVED,
        flags=("--type-prefix", "bench."),
    ),
    _row("flat.held_up", "100,000 tasks of a paused and of a rate-limited type ahead", 0.9, _held_up),
    _row("flat.finished", "5 million finished rows", 0.9, _beside(5_000_000, "bench.noop", status="SUCCESSFUL"), 150),
    _row("flat.million", "1 million ready", 0.9, _million_ready),
    _row("flat.priorities", "200 priorities", 0.9, _spread(200, priority=lambda n: n)),
    _row(
        "flat.types",
        "1,000 types",
        0.8,
        _spread(len(app_many.TYPES), task_type=lambda n: app_many.TYPES[n]),
        app="reproq.bench.app_many",
    ),
    _row("flat.turns", "1,000 types by turns", 0.8, _by_turns, app="reproq.bench.app_many"),
    _row("flat.queues", "64 queues on one worker", 0.8, _spread(64, queue=lambda n: f"q{n}")),
    _row("flat.stale.low", "statistics of a thousandth of it", 0.8, _stale_low),
    _single(
        "statistics of a thousand times as much",
        stale_high,
        [_pair("flat.stale.high", "statistics of a thousand times as much", 0.8, "fresh, same backlog")],
        40,
    ),
    _single(
        "a table that grows",
        newborn,
        [_pair("flat.newborn", "worker started on an almost empty table", 0.8, "one of 50,000 rows")],
        40,
    ),
    _single(
        "4 workers on one queue",
        workers_together,
        [
            _pair("flat.workers", "4 workers on one queue, together", 0.95, "one worker"),
            Figure("flat.workers.least", "share of the worker that got least", "of a quarter"),
        ],
        40,
    ),
    _single(
        "1 to 16 children",
        by_children,
        [
            Figure(
                f"flat.children.{count}",
                f"no-op, {count} {'child' if count == 1 else 'children'}",
                "/s",
                "flat.children.2",
                against_title="2 children",
            )
            for count in _CHILDREN
        ],
        75,
    ),
    _single("5 repeats", spread_of_noops, [_pair("flat.repeats", "slowest of 5 repeats", 0.8, "fastest")], 75),
    _single("a minute", sustained, [_pair("flat.minute", "60 s without a pause, last 10 s", 0.9, "first 10 s")], 110),
    _single(
        "an old snapshot",
        held,
        [
            _pair("flat.held.120", "REPEATABLE READ session held for 120 s", 0.7, "before", "flat.held.empty"),
            _pair("flat.held.600", "the same in the tenth minute", 0.5, "before", "flat.held.empty"),
        ],
        640,
    ),
)
