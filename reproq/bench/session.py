"""Running steps: in rounds, within a budget of time, into one file, with tables and a plot at the end."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NoReturn

import psycopg

from reproq.bench import facts as what
from reproq.bench import flatness, floors, ours, report
from reproq.bench.figures import LeftOut, Step
from reproq.bench.lab import Lab
from reproq.bench.progress import View
from reproq.bench.record import Record
from reproq.bench.server import Server, durable, given
from reproq.models.errors import ReproqError

STEPS: tuple[Step, ...] = (*floors.STEPS, *ours.STEPS, *flatness.STEPS)
Prepare = Callable[[Lab, View], AbstractContextManager[None]]


@dataclass(frozen=True)
class Wish:
    """What the user asked for."""

    folder: Path
    database_url: str | None = None
    full: bool = False
    only: tuple[str, ...] = ()
    repeats: int = 3
    scale: float = 1.0
    minutes: float | None = None
    fresh: bool = False
    plain: bool = False
    steps: Sequence[Step] = field(default=STEPS)
    prepare: Prepare | None = None  # what the steps need beside the server
    plot: Callable[[Path, View], None] | None = None

    @property
    def chosen(self) -> list[Step]:
        return [step for step in named(self.steps, self.only) if self.full or not step.full or self.only]

    def times(self, step: Step) -> int:
        return min(self.repeats, step.repeats or self.repeats)


def named(steps: Sequence[Step], words: Sequence[str]) -> list[Step]:
    """Those with one of the words in section or name; all of them without any word."""
    found = [
        step
        for step in steps
        if not words or any(word and word.lower() in f"{step.section} {step.name}".lower() for word in words)
    ]
    if not found:
        wanted = " or ".join(word or "''" for word in words)
        raise ReproqError(f"no step's name holds {wanted}; `--list` shows them")
    return found


@dataclass
class Outcome:
    report: Path
    complete: bool


def run(wish: Wish) -> Outcome:
    steps = wish.chosen
    try:
        wish.folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ReproqError(f"--results: no folder can be made at {wish.folder}: {problem.strerror}") from problem
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    view = View(sum(step.seconds * wish.times(step) for step in steps) * min(1.0, wish.scale + 0.3), wish.plain)
    with view, _laboratory(wish, view) as lab:
        record = _open(wish, lab, view)
        complete = False
        try:
            complete = _rounds(wish, steps, lab, record, view)
        except KeyboardInterrupt:
            view.say("stopped; the same command goes on from here")
        return _conclude(wish, record, view, complete)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


@contextmanager
def _laboratory(wish: Wish, view: View) -> Iterator[Lab]:
    view.say("using the server of --database-url" if wish.database_url else "starting a durable PostgreSQL")
    server_of: AbstractContextManager[Server] = given(wish.database_url) if wish.database_url else durable()
    with server_of as server, tempfile.TemporaryDirectory(prefix="reproq-bench-") as logs:
        server.prepare()
        lab = Lab(server, Path(logs), wish.scale, view.say)
        lab.measure_server()
        if wish.prepare is None:
            yield lab
            return
        with wish.prepare(lab, view):
            yield lab


def _open(wish: Wish, lab: Lab, view: View) -> Record:
    facts = what.gather(lab.server, wish.scale) | lab.extras | {"titles": titles(wish.steps)}
    if not what.is_durable(facts):
        view.say("fsync or synchronous_commit is off on this server: the figures say nothing about a durable one")
    name = "full" if wish.full else "quick"
    record = Record.open(wish.folder / f"{name}.partial.jsonl", facts, resume=not wish.fresh)
    if record.runs:
        view.say(f"going on with {record.path}: {len(record.runs)} runs are there already (--fresh starts anew)")
    _remember_rates(lab, record)
    return record


def _remember_rates(lab: Lab, record: Record) -> None:
    for key, series in record.results().series.items():
        if series.median and key.startswith(("floor.", "ours.", "payload.")):
            lab.rates[key] = series.median


def _rounds(wish: Wish, steps: list[Step], lab: Lab, record: Record, view: View) -> bool:
    """True when everything was run as often as asked. The first round is run whole, whatever the budget says."""
    until = time.monotonic() + wish.minutes * 60 if wish.minutes else None
    for turn in range(1, wish.repeats + 1):
        for step in steps:
            if record.done[step.name] >= min(turn, wish.times(step)) or _failed(record, step):
                continue
            if until and turn > 1 and time.monotonic() + step.seconds > until:
                view.say(f"{wish.minutes:g} minutes are over: {step.name} and what follows has {turn - 1} runs")
                return True
            _run(step, turn, wish, lab, record, view)
    return True


def _failed(record: Record, step: Step) -> bool:
    """What couldn't be measured once isn't tried again in this session."""
    return any(run["step"] == step.name and "left_out" in run for run in record.runs)


def _run(step: Step, turn: int, wish: Wish, lab: Lab, record: Record, view: View) -> None:
    view.begin(f"{step.name} ({turn} of {wish.times(step)})")
    began = time.monotonic()
    try:
        if step.local:
            lab.need_local()
        values = step.run(lab)
    except (ReproqError, psycopg.Error, OSError, ValueError, KeyError) as problem:
        kind = "" if isinstance(problem, LeftOut) else f"{type(problem).__name__}: "
        reason = " ".join(f"{kind}{problem}".split())
        record.leave_out(step.name, reason)
        view.end(f"{step.name}: left out: {reason}", step.seconds)
        return
    record.add(step.name, values, time.monotonic() - began)
    measured = [figure for figure in step.figures if figure.key in values]
    shown = "; ".join(f"{figure.title} {report.number(values[figure.key], figure.unit)}" for figure in measured)
    view.end(f"{step.name}: {shown}", step.seconds)


def _conclude(wish: Wish, record: Record, view: View, complete: bool) -> Outcome:
    kind = "full" if wish.full else "quick"
    if complete:
        record.finish(f"{time.strftime('%Y%m%d-%H%M%S')}-{kind}")
    text = report.markdown(record, wish.steps)
    path = record.path.with_suffix(".md")
    if wish.plot:
        wish.plot(record.path, view)
        if record.path.with_suffix(".png").exists():
            text += f"\n![The same as a picture]({record.path.with_suffix('.png').name})\n"
    path.write_text(text, "utf-8")
    _write_latest(path, text)
    view.console.print(text, soft_wrap=True, markup=False)
    view.say(f"written to {path}, raw figures beside it")
    return Outcome(path, complete)


def _write_latest(path: Path, text: str) -> None:
    path.with_name("latest.md").write_text(text, "utf-8")


def titles(steps: Sequence[Step]) -> dict[str, str]:
    """For the plot, which is drawn where the steps can't be imported."""
    return {figure.key: figure.title for step in steps for figure in step.figures}
