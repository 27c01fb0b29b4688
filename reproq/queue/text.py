"""Parameters as the text that libpq sends."""

from __future__ import annotations

from collections.abc import Iterable


def number(value: int) -> bytes:
    return b"%d" % value


def seconds(value: float) -> bytes:
    return f"{value:.6f} seconds".encode()


def array(values: Iterable[str] | None) -> bytes | None:
    """A text[] literal."""
    if values is None:
        return None
    quoted = ('"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values)
    return ("{" + ",".join(quoted) + "}").encode()


def numbers(values: Iterable[int]) -> bytes:
    """A bigint[] literal."""
    return ("{" + ",".join(map(str, values)) + "}").encode()


def flags(values: Iterable[bool]) -> bytes:
    """A boolean[] literal."""
    return ("{" + ",".join("t" if value else "f" for value in values) + "}").encode()
