"""Parsers of single values. Each raises ValueError with what was expected; the caller adds where the value stood."""

from __future__ import annotations

import difflib
import math
import re
import shlex
from collections.abc import Callable, Iterable

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|min|m|h|d))+", re.IGNORECASE | re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|m|h|d)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE | re.ASCII)
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
LEVELS = ("debug", "info", "warning", "error")

Parse = Callable[[object], object]


_QUEUE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}")


def shown(value: object, length: int = 60) -> str:
    """A value as an error may show it: one line, not endless."""
    text = repr(value)
    return text if len(text) <= length else text[: length - 1] + "…"


def suggestion(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{shown(value)} isn't a text")
    stripped = value.strip()
    if not stripped or not stripped.isprintable():
        raise ValueError(f"{shown(value)} is empty or has control characters")
    return stripped


def boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError(f"{shown(value)} is neither yes nor no; write true or false")
    return word in _TRUE


def number(low: int, high: int) -> Parse:
    def parse(value: object) -> int:
        digits = str(value).strip()
        if isinstance(value, bool) or not re.fullmatch(r"[+-]?[0-9]{1,18}", digits) or not low <= int(digits) <= high:
            raise ValueError(f"{shown(value)} isn't a whole number from {low} to {high}")
        return int(digits)

    return parse


def or_never(parse: Parse) -> Parse:
    """0, "none" and "never" switch the limit off."""

    def parse_or_never(value: object) -> object:
        off = not isinstance(value, bool) and str(value).strip().lower() in {"0", "none", "never"}
        try:
            return None if off else parse(value)
        except ValueError as problem:
            raise ValueError(f"{problem}, or 0 for no limit") from None

    return parse_or_never


def seconds(value: object) -> float:
    """30s, 500ms, 2m, 1h, 1m30s; a plain number is seconds."""
    word = str(value).strip()
    if not isinstance(value, bool) and len(word) < 50:
        if _NUMBER.fullmatch(word):
            return float(word)
        if _DURATION.fullmatch(word):
            return sum(float(n) * _SECONDS[unit.lower()] for n, unit in _DURATION_PART.findall(word))
    raise ValueError(f"{shown(value)} isn't a duration; write 30s, 500ms, 2m or 1h")


def duration(low: float, high: float) -> Parse:
    def parse(value: object) -> float:
        found = seconds(value)
        if not (math.isfinite(found) and low <= found <= high):
            raise ValueError(f"{shown(value)} is out of range: from {plain(low)} to {plain(high)}")
        return found

    return parse


def plain(length: float) -> str:
    """Seconds as a person writes them: 0.5 is 500ms, 120 is 2m."""
    if 0 < length < 1:
        return f"{length * 1000:g}ms"
    for unit, factor in (("h", 3600), ("m", 60)):
        if length >= factor and length % factor == 0:
            return f"{length / factor:g}{unit}"
    return f"{length:g}s"


def size(low: int, high: int) -> Parse:
    def parse(value: object) -> int:
        match = None if isinstance(value, bool) else _SIZE.fullmatch(str(value).strip()[:40])
        if match is None:
            raise ValueError(f"{shown(value)} isn't a size; write 64MiB, 1GiB or a number of bytes")
        amount, unit, ending = match.groups()
        base = 1000 if unit and (ending or "").lower() == "b" else 1024
        found = int(float(amount) * base ** _POWER[unit.lower()])
        if not low <= found <= high:
            raise ValueError(f"{shown(value)} is out of range: from {low} to {high} bytes")
        return found

    return parse


def words(check: Callable[[str], str]) -> Parse:
    """A list in the file, repeated flags, or one comma-separated text in the environment."""

    def parse(value: object) -> tuple[str, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
            raise ValueError(f"{shown(value)} isn't a list of names")
        pieces = (piece.strip() for part in parts for piece in part.split(","))
        found = tuple(dict.fromkeys(check(piece) for piece in pieces if piece))
        if parts and not found:  # an unset shell variable must not turn into "every queue"
            raise ValueError("it names nothing; leave it out to mean all")
        return found

    return parse


def queue_name(word: str) -> str:
    if not _QUEUE_NAME.fullmatch(word):
        raise ValueError(
            f"{shown(word)} isn't a queue name: 1 to 100 letters, digits and _ . : - , the first a letter or digit"
        )
    return word


def type_prefix(word: str) -> str:
    if len(word) > 200 or not word.isprintable() or " " in word:
        raise ValueError(f"{shown(word)} isn't a type prefix: up to 200 visible characters, no spaces")
    if "*" in word:
        raise ValueError(
            f"{shown(word)} has a *, but a prefix is taken literally; write {word.split('*')[0] or 'media.'}"
        )
    return word


def module_name(word: str) -> str:
    if word.endswith(".py") or not all(part.isidentifier() for part in word.split(".")):
        hint = f"; write {word[:-3].replace('/', '.')}" if word.endswith(".py") else "; write it as you would import it"
        raise ValueError(f"{shown(word)} isn't a module name{hint}")
    return word


def variable_name(word: str) -> str:
    if not _NAME.fullmatch(word):
        raise ValueError(f"{shown(word)} isn't the name of an environment variable (a name only, no value)")
    return word


def host_part(value: object) -> str:
    word = text(value)
    if len(word) > 100 or "/" in word or " " in word:
        raise ValueError(f"{shown(value)} isn't a worker name: up to 100 characters, no slash, no space")
    return word


def role_prefix(value: object) -> str:
    word = str(value).strip()
    if not re.fullmatch(r"(?:[a-z_][a-z0-9_]{0,29})?", word):
        raise ValueError(f"{shown(value)} isn't a role prefix: lower-case letters, digits and _, at most 30")
    return word


def level(value: object) -> str:
    word = str(value).strip().lower()
    if word not in LEVELS:
        raise ValueError(f"{shown(value)} isn't a log level; write one of {', '.join(LEVELS)}")
    return word


def one_of(words: tuple[str, ...]) -> Parse:
    def parse(value: object) -> str:
        word = str(value).strip().lower()
        if word not in words:
            raise ValueError(f"{shown(value)} isn't one of {', '.join(words)}{suggestion(word, words)}")
        return word

    return parse


def key(value: object) -> str:
    """A secret word. The error doesn't repeat it."""
    word = value.strip() if isinstance(value, str) else ""
    if not re.fullmatch(r"[!-~]{1,1000}", word):
        raise ValueError("not a key: visible ASCII characters without spaces are needed")
    return word


def account_sid(value: object) -> str:
    word = str(value).strip()
    if not re.fullmatch(r"AC[0-9a-fA-F]{32}", word):
        raise ValueError("not an account SID: AC and 32 hexadecimal digits are needed")
    return word


def sender(value: object) -> str:
    word = text(value)
    if not re.fullmatch(r"[^\s<>@,;]+@[^\s<>@,;]+|(?:\"[^\"]*\"|[^<>@,;\"]*) *<[^\s<>@,;]+@[^\s<>@,;]+>", word):
        raise ValueError(f"{shown(value)} isn't an email address; write shop@example.org or Shop <shop@example.org>")
    return word


def command(value: object) -> tuple[str, ...]:
    """["./thumbnail", "--fast"] or "./thumbnail --fast"; no shell is involved."""
    parts = shlex.split(value) if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not parts or not all(isinstance(part, str) for part in parts):
        raise ValueError(f'{shown(value)} isn\'t a command; write command = ["./program", "argument"]')
    if any("\0" in part for part in parts) or not parts[0]:
        raise ValueError(f"{shown(value)} has an empty program name or a NUL character")
    return tuple(parts)
