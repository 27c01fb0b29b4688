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
_TRIGGER = re.compile(
    r"create\s+(?:constraint\s+)?trigger\s+(?P<name>\w+)\s+(?P<when>before|after)\s+(?P<events>.+?)\s+on\s+"
    r"(?P<table>\w+\.\w+)",
    re.IGNORECASE | re.DOTALL,
)
_FUNCTION = re.compile(r"create\s+(?:or\s+replace\s+)?function\s+(\w+\.\w+)\s*\(", re.IGNORECASE)
_BODY = re.compile(r"\bas\s+\$\$(.*)\$\$\s*;?\s*\Z", re.IGNORECASE | re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*")
_ARGUMENTS = re.compile(r"\([^()]*\)")
EVENTS = {"insert": 4, "delete": 8, "update": 16, "truncate": 32}  # pg_trigger.tgtype


class Grant(NamedTuple):
    kind: str  # function, schema, relation, type
    name: str
    role: str
    right: str


class Trigger(NamedTuple):
    name: str
    table: str
    events: int


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


def triggers(files: Migrations) -> set[Trigger]:
    """Every trigger that a numbered migration makes."""
    found = (match for file in files.numbered for match in _TRIGGER.finditer(_COMMENT.sub("", file.text)))
    return {Trigger(match["name"], match["table"], _events(match["events"])) for match in found}


def _events(text: str) -> int:
    return sum({EVENTS[word] for word in re.findall(r"\w+", text.lower()) if word in EVENTS})


def functions(files: Migrations) -> set[str]:
    """The names of all functions of ours."""
    texts = [ledger.TABLES, *(file.text for file in (*files.numbered, *files.functions))]
    return {name for text in texts for name in _FUNCTION.findall(text)}


def bodies(files: Migrations) -> dict[str, str]:
    """The body of each function that has a file of its own."""
    found = ((_FUNCTION.search(file.text), _BODY.search(file.text)) for file in files.functions)
    return {name[1]: body[1] for name, body in found if name and body}
