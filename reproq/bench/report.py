"""Tables in markdown, from the raw file alone."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from reproq.bench.facts import is_durable
from reproq.bench.figures import Figure, Results, Step
from reproq.bench.record import Record

_HEAD = ("what", "median", "runs", "ratio", "to", "wanted", "")
FOREIGN_LIMIT = 0.2


def markdown(record: Record, steps: Sequence[Step]) -> str:
    results = record.results()
    parts = [_facts(record.facts)]
    for section in dict.fromkeys(step.section for step in steps):
        here = [step for step in steps if step.section == section and not step.peer]
        rows = [row for step in here for figure in step.figures if (row := _row(figure, steps, results))]
        if rows:
            parts.append(f"## {section}\n\n{table(_HEAD, rows)}")
    parts += [section for section in (_peers(record, results), _left_out(results), _foreign(record)) if section]
    return "\n".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows), ""])


def number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "–"
    if not unit and value == int(value):
        return f"{value:,.0f}"
    shown = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{shown}{unit}" if unit.startswith("/") else f"{shown} {unit}".strip()


def _row(figure: Figure, steps: Sequence[Step], results: Results) -> list[str] | None:
    series = results.series.get(figure.key)
    if series is None:
        return None
    ratio = results.ratio(figure)
    runs = ", ".join(number(value) for value in series.values) if len(series.values) > 1 else ""
    to = f"{_title_of(figure, steps)} ({number(results.base(figure), figure.unit)})" if ratio is not None else ""
    return [
        figure.title,
        number(series.median, figure.unit),
        runs,
        "" if ratio is None else f"{ratio:.3f}",
        to,
        str(figure.bound or ""),
        verdict(figure, results),
    ]


def verdict(figure: Figure, results: Results) -> str:
    if figure.bound is None:
        return ""
    holds = figure.bound.holds(results.value(figure.key), results.ratio(figure))
    return {True: "reached", False: "**missed**", None: ""}[holds]


def _title_of(figure: Figure, steps: Sequence[Step]) -> str:
    if figure.against_title:
        return figure.against_title
    titles = {other.key: other.title for step in steps for other in step.figures}
    return titles.get(figure.against or "", figure.against or "")


def _facts(facts: dict[str, Any]) -> str:
    settings = ", ".join(f"{name} {value}" for name, value in facts["settings"].items())
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(facts["at"]))
    rows = [
        ("when", when),
        ("reproq", f"{facts['reproq']} {facts['commit']}".strip()),
        ("machine", facts["machine"]),
        ("disk", facts["disk"]),
        ("server", facts["server"]),
        ("settings", settings),
        ("client", f"Python {facts['python']}, psycopg {facts['psycopg']}"),
    ]
    if facts.get("peers"):
        rows.append(("peers", ", ".join(f"{name} {version}" for name, version in facts["peers"].items())))
    warning = "" if is_durable(facts) else "\n**fsync or synchronous_commit is off: not a durable server.**\n"
    if facts["scale"] != 1:
        warning += f"\n**Runs were {facts['scale']:g} × as long as they should be: a trial, not a measurement.**\n"
    return "# Benchmark\n\n" + table(("", ""), [row for row in rows if row[1]]) + warning


def _peers(record: Record, results: Results) -> str:
    """Peers by rate, with what isolates a job and what one that kills its process does to the rest."""
    found = {}
    for run in record.runs:
        about = run.get("values", {}).get("peer")
        if about:
            found[about["key"]] = about
    ours = results.value("ours.noop")
    rows = []
    for key in sorted(found, key=lambda key: -(results.value(key) or 0)):
        about, rate = found[key], results.value(key)
        ratio = f"{ours / rate:.2f}" if ours and rate else ""
        bound = about.get("factor")
        judged = "" if not (bound and ours and rate) else ("reached" if ours / rate >= bound else "**missed**")
        rows.append(
            [
                about["title"], about["version"], number(rate, "/s"), ratio, f"≥ {bound:g}" if bound else "", judged,
                number(results.value(f"{key}.cpu"), "µs"), number(results.value(f"{key}.mb"), "MB"),
                about["isolation"], about["crash"],
            ]
        )  # fmt: skip
    if not rows:
        return ""
    head = ("peer, no-op", "version", "median", "ours ÷ it", "wanted", "", "CPU a task", "memory", "a job runs in")
    return f"## Peers\n\n{table((*head, 'a job that kills its process'), rows)}"


def _left_out(results: Results) -> str:
    rows = [(step, reason) for step, reason in results.left_out.items()]
    return f"## Left out\n\n{table(('what', 'why'), rows)}" if rows else ""


def _foreign(record: Record) -> str:
    """Runs during which something else used the cores."""
    rows = []
    for run in record.runs:
        cores = run.get("values", {}).get("detail", {}).get("foreign cores")
        if cores and cores > FOREIGN_LIMIT:
            rows.append((run["step"], f"{cores:.2f}"))
    note = "Something else used the machine during these runs, so their figures are too low.\n\n"
    return f"## Not undisturbed\n\n{note}{table(('run', 'cores used by others'), rows)}" if rows else ""
