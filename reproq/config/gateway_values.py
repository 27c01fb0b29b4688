"""Parsers of the gateway's single values."""

from __future__ import annotations

import re
from pathlib import Path

from reproq import tickets
from reproq.config import values
from reproq.config.values import shown

_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


def readable_file(value: object) -> Path:
    path = Path(values.text(value)).expanduser().absolute()
    try:
        with path.open("rb"):
            return path
    except OSError as problem:
        raise ValueError(f"can't read {path}: {problem.strerror}") from None


def origin(word: str) -> str:
    if not _ORIGIN.fullmatch(word):
        hint = "; any site could then use a token that it got hold of, so name them" if word == "*" else ""
        raise ValueError(f"{shown(word)} isn't an origin: write https://shop.example, without a path{hint}")
    return word.lower()


def ticket_keys(value: object) -> tuple[str, ...]:
    return tickets.keys(value if isinstance(value, str) else "")
