"""Rows for people and rows for programs."""

from __future__ import annotations

import json
from typing import Any

import click

WIDEST = 48
ANSWER_AS_JSON = click.option("--json", "as_json", is_flag=True, help="The answer as one JSON object.")


def as_json_text(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def say(answer: Any, as_json: bool, **about: Any) -> None:
    """What an order did, and what it was about: for people the answer alone, since they know what they asked."""
    click.echo(as_json_text({**about, "answer": answer}) if as_json else answer)


def cell(value: object) -> str:
    """Text that can't move the cursor."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else str(value)
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


def show_table(rows: list[dict[str, Any]], nothing: str) -> None:
    if not rows:
        click.echo(nothing)
        return
    cells = [[name.replace("_", " ") for name in rows[0]]]
    cells += [[cell("" if value is None else value).replace("\n", " ") for value in row.values()] for row in rows]
    widths = [min(WIDEST, max(map(len, column))) for column in zip(*cells, strict=True)]
    for line in cells:
        click.echo("  ".join(f"{text[:width]:<{width}}" for text, width in zip(line, widths, strict=True)).rstrip())
