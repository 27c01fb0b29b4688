"""The screen of `reproq top`: what fits into so many columns and lines, most important first."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.layout import Layout
from rich.table import Table
from rich.text import Text

from reproq.cli.sheets import cell
from reproq.cli.top_looks import Picture, Watch

_BARS = "▁▂▃▄▅▆▇█"
_SILENT_S = 30.0
_OLD_S = 60.0
_PATIENCE_S = 3.0
_HEAD_LINES = 3
_LEAST_WORKERS = 3
HELP = """\
q       end                    p   hold the picture, go on with p again
s       sort queues by: name, what is ready, what runs, oldest, dead letters
?       this text              Ctrl-C ends too, Ctrl-Z suspends

READY   due and nobody's yet   LATER    scheduled, or waiting for a retry
WAITING for other tasks, or for a free place under its key
RUNNING leased by a worker     DEAD     dead letters among the newest failures
OLDEST  how long the oldest ready task has been due
10000+  counted so far; more isn't counted, to stay cheap
~       estimated from the rows changed, where counts end in +
BUSY    children with a task, of all; HOLDS is what the worker has leased,
        with what it has fetched ahead; HEARD since its last heartbeat
*       this worker keeps house (schedules, retention)"""

Queue = dict[str, Any]
SORTS: dict[str, Callable[[Queue], Any]] = {
    "name": lambda queue: queue["name"],
    "ready": lambda queue: -queue["ready"],
    "running": lambda queue: -queue["running"],
    "oldest": lambda queue: -(queue["oldest_s"] or 0.0),
    "dead": lambda queue: -queue["dead"],
}


@dataclass
class Mode:
    """What the keys have chosen."""

    sort: str = "name"
    paused: bool = False
    help: bool = False

    def press(self, key: str) -> None:
        names = list(SORTS)
        if key == "s":
            self.sort = names[(names.index(self.sort) + 1) % len(names)]
        elif key == "p":
            self.paused = not self.paused
        elif key in ("?", "h"):
            self.help = not self.help


def screen(picture: Picture, mode: Mode, watch: Watch | None, width: int, height: int) -> RenderableType:
    """Exactly as many lines as there are."""
    whole = Layout()
    whole.split_column(Layout(_body(picture, mode, width, height - 1)), Layout(_keys(mode, watch), size=1))
    return whole


def _body(picture: Picture, mode: Mode, width: int, height: int) -> RenderableType:
    if mode.help:
        return Group(*_heading(picture, width), Text(), Text(HELP, no_wrap=True, overflow="crop"))
    room = height - _HEAD_LINES - 4  # a blank line and the names of columns, twice
    workers = min(len(picture.look["workers"]), max(_LEAST_WORKERS, room - len(picture.look["queues"])))
    parts = [*_heading(picture, width), Text(), *_queues(picture, mode, max(1, room - workers))]
    return Group(*parts, Text(), *_workers(picture, width, max(1, workers)))


def sheet(picture: Picture, width: int) -> RenderableType:
    """All of it, once."""
    return Group(
        *_heading(picture, width), Text(), *_queues(picture, Mode(), 1000), Text(), *_workers(picture, width, 1000)
    )


def _heading(picture: Picture, width: int) -> Iterator[RenderableType]:
    look = picture.look
    clock = time.strftime("%H:%M:%S", time.gmtime(look["at"]))
    workers = [worker for worker in look["workers"] if worker["heard_s"] < _SILENT_S]
    busy = sum(_busy(worker) for worker in workers)
    children = sum(worker["children"] for worker in workers)
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append("reproq top", "bold").append(f"  {cell(picture.database)}  {picture.server}  {clock} UTC")
    yield line
    ready, oldest = (
        sum(q["ready"] for q in look["queues"]),
        max((q["oldest_s"] or 0.0 for q in look["queues"]), default=0.0),
    )
    plus = "+" if any(q["ready"] >= look["most"] for q in look["queues"]) else ""
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"ready {ready}{plus}").append(f"   oldest {_span(oldest)}", _old(oldest))
    line.append(f"   running {sum(q['running'] for q in look['queues'])}")
    line.append(f"   workers {len(workers)}", "bold red" if not workers and ready else "")
    line.append(f"   children busy {busy} of {children}")
    yield line
    bars = max(8, (width - 34) // 2)
    estimate = "~" if picture.out_is_estimate else ""
    line = Text(no_wrap=True, overflow="crop")
    line.append(f"in {_rate(picture.came_per_s):>8}/s ").append(_spark(picture.came_history, bars), "cyan")
    line.append(f"  out {estimate + _rate(picture.out_per_s):>8}/s ").append(_spark(picture.out_history, bars), "green")
    yield line


def _queues(picture: Picture, mode: Mode, room: int) -> Iterator[RenderableType]:
    look = picture.look
    queues = sorted(look["queues"], key=lambda queue: (SORTS[mode.sort](queue), queue["name"]))
    if not queues:
        yield Text("no queue has open tasks", "dim")
        return
    table = _table(
        ("QUEUE", 1),
        *((name, 0) for name in ("READY", "LATER", "WAITING", "RUNNING", "DEAD", "OLDEST", "IN/s", "OUT/s")),
    )
    for queue in _fitting(queues, room):
        came, left = picture.rates.get(queue["name"], (None, None))
        name = (
            Text(cell(queue["name"]), "bold").append(" paused", "yellow")
            if queue["paused"]
            else Text(cell(queue["name"]))
        )
        counts = [_count(queue[key], look["most"]) for key in ("ready", "later", "waiting")]
        table.add_row(
            name, *counts, str(queue["running"]), _dead(queue["dead"], look["most"]),
            Text(_span(queue["oldest_s"]), _old(queue["oldest_s"] or 0.0)), _rate(came), _rate(left),
        )  # fmt: skip
    yield table
    yield from _rest(queues, room, "queues")


def _workers(picture: Picture, width: int, room: int) -> Iterator[RenderableType]:
    workers = sorted(picture.look["workers"], key=lambda worker: (not worker["leads"], worker["name"] or ""))
    if not workers:
        yield Text("no worker is registered; start one with `reproq worker`", "bold red")
        return
    columns = [("WORKER", 1), ("SERVES", 1), ("BUSY", 0), ("HOLDS", 0), ("HEARD", 0), ("UP", 0), ("VERSION", 0)]
    table = _table(*columns, *([("HOST", 1)] if width >= 100 else []))
    table.columns[1].justify = "left"
    for worker in _fitting(workers, room):
        silent = worker["heard_s"] > _SILENT_S
        cells: list[RenderableType] = [
            Text(("* " if worker["leads"] else "  ") + cell(worker["name"] or "?"), "bold" if worker["leads"] else ""),
            Text(_served(worker)),
            f"{_busy(worker)}/{worker['children']}",
            str(worker["holds"]),
            Text(_span(worker["heard_s"]), "bold red" if silent else ""),
            _span(worker["up_s"]),
            cell(worker["version"]),
        ]
        table.add_row(*cells, *([cell(worker["host"])] if width >= 100 else []))
    yield table
    yield from _rest(workers, room, "workers")


def _table(*columns: tuple[str, int]) -> Table:
    """The first column gives way; it is cut with an ellipsis rather than wrapped."""
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 1, 0, 0), header_style="reverse")
    for place, (name, ratio) in enumerate(columns):
        table.add_column(
            name, justify="right" if place else "left", no_wrap=True, overflow="ellipsis", ratio=ratio or None
        )
    return table


def _fitting(rows: Sequence[Queue], room: int) -> Sequence[Queue]:
    return rows if len(rows) <= room else rows[: max(0, room - 1)]


def _rest(rows: Sequence[Queue], room: int, what: str) -> Iterator[RenderableType]:
    hidden = len(rows) - len(_fitting(rows, room))
    if hidden:
        yield Text(f"… {hidden} more {what}", "dim")


def _keys(mode: Mode, watch: Watch | None) -> Text:
    if watch is not None and watch.trouble is not None:
        away = time.monotonic() - watch.away_since
        return Text(
            f"database away for {away:.0f} s: {cell(watch.trouble)}", "bold red", no_wrap=True, overflow="ellipsis"
        )
    if watch is not None and watch.silent_s > _PATIENCE_S:
        return Text(f"the database hasn't answered for {watch.silent_s:.0f} s", "bold yellow")
    line = Text("q quit  p ", no_wrap=True, overflow="ellipsis")
    line.append("held" if mode.paused else "hold", "bold yellow" if mode.paused else "")
    return line.append(f"  s sort: {mode.sort}  ? help")


def _served(worker: dict[str, Any]) -> str:
    queues = ",".join(worker["queues"]) if worker["queues"] else "every queue"
    return cell(queues + (": " + ",".join(f"{prefix}*" for prefix in worker["prefixes"]) if worker["prefixes"] else ""))


def _busy(worker: dict[str, Any]) -> int:
    return min(int(worker["holds"]), int(worker["children"]))


def _count(count: int, most: int) -> str:
    return f"{count}+" if count >= most else str(count)


def _dead(count: int, most: int) -> Text:
    return Text(_count(count, most), "red" if count else "")


def _old(seconds: float) -> str:
    return "bold yellow" if seconds >= _OLD_S else ""


def _rate(rate: float | None) -> str:
    return "?" if rate is None else f"{rate:.1f}" if 0 < rate < 100 else f"{rate:.0f}"


def _span(seconds: float | None) -> str:
    """Two words of time at most, never longer than six characters."""
    if seconds is None:
        return ""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def _spark(values: Sequence[float], width: int) -> str:
    """The newest on the right; the highest of them fills its cell."""
    shown = values[-width:]
    highest = max(shown, default=0.0)
    return "".join(_BARS[min(7, int(value / highest * 7.999))] if highest else _BARS[0] for value in shown).rjust(width)


def document(picture: Picture) -> str:
    return json.dumps(picture.document(), ensure_ascii=False)
