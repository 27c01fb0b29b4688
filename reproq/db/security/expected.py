"""What migrations say that a database has, as values: grants.sql is the one list of rights, and doctor reads it too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from reproq.db.migration import ledger
from reproq.db.migration.files import Migrations

_GRANT = re.compile(
    r"grant\s+(?P<rights>[\w\s,]+?)\s+on\s+(?:(?P<kind>function|schema|table|type|sequence)\s+)?(?P<names>[\w\s.,]+?)"
    r"\s+to\s+(?P<roles>[\w\s,]+)",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"--[^\n]*")
_ARGUMENTS = re.compile(r"\([^()]*\)")


class Grant(NamedTuple):
    kind: str  # function, schema, relation, type
    name: str
    role: str
    right: str


def grants(files: Migrations) -> set[Grant]:
    """Every right that a role of ours is meant to have."""
    text = _ARGUMENTS.sub("", _COMMENT.sub("", f"{files.grants.text};{ledger.reader_grants(files)}"))
    statements = [statement.strip() for statement in text.split(";")]
    return {grant for statement in statements if statement.startswith("grant ") for grant in _grants(statement)}


def _grants(statement: str) -> Iterator[Grant]:
    match = _GRANT.fullmatch(statement)
    if match is None:
        raise ValueError(f"a grant that doctor can't read: {statement}")
    kind = (match["kind"] or "table").lower()
    for name in _words(match["names"]):
        for role in _words(match["roles"]):
            for right in _words(match["rights"]):
                yield Grant("relation" if kind in ("table", "sequence") else kind, name, role, right.upper())


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]
