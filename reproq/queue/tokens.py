"""The gateway's API tokens: made, listed and revoked by an operator, used by the gateway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from reproq.db.line import Call, Rows
from reproq.queue.text import array, seconds

SCOPES = {
    "tasks:write": "enqueue tasks",
    "tasks:read": "ask for tasks, wait for them, follow their events",
    "tasks:cancel": "cancel tasks",
    "tickets:issue": "make tickets for browsers",
    "processes:read": "ask for business processes, wait for them",
    "metrics:read": "read the gateway's metrics",
}


@dataclass(frozen=True, slots=True)
class Rights:
    """What the bearer of a token may do. No queues, no prefixes: all of them."""

    id: int
    name: str
    scopes: frozenset[str]
    queues: tuple[str, ...] | None = None
    prefixes: tuple[str, ...] | None = None
    expires_at: float | None = None


def create_token(
    name: str,
    sha256: bytes,
    scopes: Sequence[str],
    queues: Sequence[str] | None,
    prefixes: Sequence[str] | None,
    expires_in_s: float | None,
) -> Call:
    """Answers the token's number."""
    params = (
        name.encode(), _bytea(sha256), array(scopes), array(queues), array(prefixes),
        None if expires_in_s is None else seconds(expires_in_s),
    )  # fmt: skip
    sql = b"select queues.create_token($1, $2, $3, $4, $5, $6)"
    return Call(sql, params, lambda rows: int(rows[0][0] or 0))


def list_tokens() -> Call:
    return Call(b"select pg_catalog.to_jsonb(t) from queues.list_tokens() t", (), _documents)


def revoke_token(name: str) -> Call:
    """Answers revoked or unknown."""
    return Call(b"select queues.revoke_token($1)", (name.encode(),), lambda rows: (rows[0][0] or b"").decode())


def use_token(sha256: bytes) -> Call:
    """Answers Rights, or None: unknown, expired or revoked."""
    sql = (
        b"select id, name, pg_catalog.to_json(scopes), pg_catalog.to_json(queues), pg_catalog.to_json(prefixes),"
        b" extract(epoch from expires_at)"
        b" from queues.use_token($1)"
    )
    return Call(sql, (_bytea(sha256),), _rights)


def _bytea(value: bytes) -> bytes:
    return b"\\x" + value.hex().encode()


def _documents(rows: Rows) -> list[dict[str, Any]]:
    return [orjson.loads(row[0] or b"{}") for row in rows]


def _rights(rows: Rows) -> Rights | None:
    if not rows:
        return None
    token_id, name, scopes, queues, prefixes, expires_at = rows[0]
    return Rights(
        int(token_id or 0), (name or b"").decode(), frozenset(orjson.loads(scopes or b"[]")),
        _names(queues), _names(prefixes), None if expires_at is None else float(expires_at),
    )  # fmt: skip


def _names(value: bytes | None) -> tuple[str, ...] | None:
    return None if value is None else tuple(orjson.loads(value))
