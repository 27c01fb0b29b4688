"""Families as text: Prometheus' own format, and OpenMetrics for who asks for it.

By hand: the two formats are forty lines, and prometheus_client would cost a worker 41 ms of start and a registry with
locks in the way of its loop. Its parsers judge the result in the tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from reproq.metrics.families import Family, Labels

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_WEIGHT = re.compile(r";\s*q\s*=\s*([0-9.]+)")


def chosen_type(accept: str) -> str:
    """Whichever of the two the header prefers."""
    wanted = {entry.partition(";")[0].strip().lower(): _weight(entry) for entry in accept.split(",")}
    open_weight = wanted.get("application/openmetrics-text", 0.0)
    return OPEN if open_weight > 0 and open_weight >= wanted.get("text/plain", 0.0) else PLAIN


def _weight(entry: str) -> float:
    match = _WEIGHT.search(entry)
    try:
        return float(match[1]) if match else 1.0
    except ValueError:
        return 0.0


def render(families: Iterable[Family], content_type: str = PLAIN) -> bytes:
    is_open = content_type == OPEN
    lines = [line for family in families for line in _lines(family, is_open)]
    return "".join(f"{line}\n" for line in [*lines, *(["# EOF"] if is_open else [])]).encode()


def _lines(family: Family, is_open: bool) -> list[str]:
    """A counter's name ends with _total; in OpenMetrics its family's doesn't."""
    name = family.name
    shown = f"{name}_total" if family.kind == "counter" and not is_open else name
    head = [f"# HELP {shown} {_help(family.help)}", f"# TYPE {shown} {family.kind}"]
    return head + [f"{name}{suffix}{_labels(labels)} {_number(value)}" for suffix, labels, value in family.samples]


def _labels(labels: Labels) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
