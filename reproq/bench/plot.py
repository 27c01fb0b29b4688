"""The picture: `python -m reproq.bench.plot RAW.jsonl OUT.png`. Needs matplotlib, which the extra `bench` installs.

bench/ of the checkout runs this file in an environment of its own, so that nobody else pays for matplotlib.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reproq.bench.record import read

_GROUPS = (
    (
        "Tasks and rows a second",
        ("floor.batch", "floor.single.8", "floor.echo.2.1", "ours.noop", "ours.function", "peer."),
    ),
    (
        "Enqueued a second",
        ("floor.insert", "floor.insert.many", "floor.insert.copy", "enqueue.one", "enqueue.1000", "enqueue.all"),
    ),
)
_COLOURS = {"floor": "#9aa5b1", "ours": "#1f6feb", "enqueue": "#1f6feb", "peer": "#d29922", "flat": "#1f6feb"}


def draw(raw: Path, target: Path, titles: dict[str, str]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    record = read(raw)
    if record is None:
        raise SystemExit(f"{raw} holds no session")
    results = record.results()
    medians = {key: series.median for key, series in results.series.items() if series.median}
    flat = {key: medians[key] / medians[base] for key in medians if (base := _base_of(key)) in medians and key != base}
    charts = [(title, _pick(medians, keys), True) for title, keys in _GROUPS]
    charts += [("Rate relative to the empty table", flat, False)]
    charts = [chart for chart in charts if chart[1]]
    sizes = [max(2, len(values)) for _title, values, _log in charts]
    figure, axes = plt.subplots(
        len(charts), 1, figsize=(10, 1.2 + 0.34 * sum(sizes) + 0.6 * len(charts)), squeeze=False, height_ratios=sizes
    )
    for axis, (title, values, is_log) in zip(axes[:, 0], charts, strict=True):
        _bars(axis, title, values, titles, is_log)
    figure.suptitle(record.facts["machine"], fontsize=8)
    figure.tight_layout()
    figure.savefig(target, dpi=110)


def _base_of(key: str) -> str:
    return "flat.held.empty" if key.startswith("flat.held.") else f"{key}.empty"


def _pick(medians: dict[str, float], keys: Sequence[str]) -> dict[str, float]:
    """Keys that end with a dot stand for all figures of that kind that are rates themselves."""
    names = [name for name in medians for key in keys if name == key or (key[-1] == "." and _is_rate(name, key))]
    return {name: medians[name] for name in dict.fromkeys(names)}


def _is_rate(name: str, kind: str) -> bool:
    return name.startswith(kind) and name.endswith(".noop")


def _bars(axis: Any, title: str, values: dict[str, float], titles: dict[str, str], is_log: bool) -> None:
    names = sorted(values, key=lambda name: values[name])
    bars = axis.barh(
        [titles.get(name, name) for name in names],
        [values[name] for name in names],
        color=[_COLOURS.get(name.split(".")[0], "#9aa5b1") for name in names],
    )
    axis.bar_label(bars, [f" {values[name]:,.0f}" if is_log else f" {values[name]:.2f}" for name in names], fontsize=8)
    axis.set_title(title, loc="left", fontsize=10)
    axis.tick_params(labelsize=8)
    axis.margins(x=0.12)
    if is_log:
        axis.set_xscale("log")
    else:
        axis.axvline(1, color="#9aa5b1", linewidth=0.8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def titles_of(raw: Path) -> dict[str, str]:
    """Written into the file by the session: this runs where the steps can't be imported."""
    record = read(raw)
    return dict(record.facts.get("titles", {})) if record else {}


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]), titles_of(Path(sys.argv[1])))
