"""Who asks, and what he may: a program with a token, a browser with a ticket.

A token is looked up by its SHA-256 and remembered for five seconds, so a revocation works within that time and requests
don't cost a look each. Neither tokens nor tickets appear in any log line; wrong ones are counted and told in sum.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.requests import Request

from reproq import log
from reproq.log import Event
from reproq.queue.tokens import Rights, use_token
from reproq.queue.waiting import Sight
from reproq.tickets import TASK, Ticket, TicketError, opened
from reproq.web.counts import Counts
from reproq.web.problems import Problem, not_found
from reproq.web.store import Store

REMEMBERED_S = 5.0
REMEMBERED = 10_000
WAITS_PER_TICKET = 20
_TOKEN = re.compile(r"rq_[A-Za-z0-9_-]{43}", re.ASCII)
_TOLD_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class Caller:
    """Rights or a ticket, exactly one of the two."""

    rights: Rights | None = None
    ticket: Ticket | None = None
    sha256: bytes = b""  # of the token

    @property
    def name(self) -> str:
        return self.rights.name if self.rights is not None else "ticket"

    def needs(self, scope: str) -> None:
        if self.rights is None:
            raise Problem(403, "ticket-only-reads", f"a ticket opens one task or process for reading, not {scope}")
        if scope not in self.rights.scopes:
            raise Problem(403, "scope-missing", f"the token {self.rights.name} lacks the scope {scope}", scope=scope)

    def may_read(self, kind: str, number: int) -> None:
        """A ticket opens its own task or process; a token what its scope says."""
        if self.ticket is None:
            self.needs("tasks:read" if kind == TASK else "processes:read")
        elif (self.ticket.kind, self.ticket.id) != (kind, number):
            raise Problem(403, "another-ones", "this ticket opens another task or process")

    def may_enqueue(self, task_type: str, queue_name: str) -> None:
        self.needs("tasks:write")
        if not self._reaches(task_type, queue_name):
            raise Problem(403, "out-of-reach", f"the token {self.name} isn't for {task_type} in queue {queue_name}")

    def sees(self, sight: Sight) -> bool:
        return sight.mark is not None and (self.ticket is not None or self._reaches(sight.task_type, sight.queue_name))

    @property
    def is_limited(self) -> bool:
        return self.rights is not None and (self.rights.queues is not None or self.rights.prefixes is not None)

    def _reaches(self, task_type: str, queue_name: str) -> bool:
        assert self.rights is not None
        queues, prefixes = self.rights.queues, self.rights.prefixes
        if not task_type:  # a process has neither
            return True
        return (queues is None or queue_name in queues) and (prefixes is None or task_type.startswith(prefixes))


class Callers:
    def __init__(self, store: Store, ticket_keys: Sequence[str], counts: Counts) -> None:
        self._store = store
        self._ticket_keys = tuple(ticket_keys)
        self._counts = counts
        self._known: dict[bytes, tuple[float, Rights | None]] = {}
        self._asked: dict[bytes, asyncio.Task[Rights | None]] = {}
        self._waits: Counter[Ticket] = Counter()
        self._wrong = 0
        self._told_at = 0.0

    async def caller_of(self, request: Request, *, also_while_away: bool = False) -> Caller:
        """`also_while_away`: a token that was good goes on being good while the database can't be asked."""
        given = _credentials(request)
        if given is None:
            raise _unauthorized("a token or a ticket is needed: Authorization: Bearer …")
        if given.startswith("rqt1~"):
            return Caller(ticket=self._opened(given))
        sha256 = hashlib.sha256(given.encode("utf-8", "replace")).digest()
        is_token = _TOKEN.fullmatch(given) and "ticket" not in request.query_params  # a URL is no place for a token
        rights = await self._rights(sha256, also_while_away) if is_token else None
        if rights is None:
            self._note_wrong(request)
            raise _unauthorized("the token is unknown, expired or revoked", "invalid_token")
        return Caller(rights=rights, sha256=sha256)

    async def still_good(self, caller: Caller) -> bool:
        """For what goes on for longer than a request: a token revoked, a ticket expired."""
        if caller.ticket is not None:
            return caller.ticket.expires_at > time.time()
        try:
            return await self._rights(caller.sha256) is not None
        except Problem:  # the database is away, and who follows goes on following
            return True

    @contextmanager
    def waiting(self, caller: Caller) -> Iterator[None]:
        """One ticket can't use up the places of all who wait."""
        if caller.ticket is None:
            yield
            return
        if self._waits[caller.ticket] >= WAITS_PER_TICKET:
            text = f"{WAITS_PER_TICKET} wait with this ticket already"
            raise Problem(429, "too-many-waits", text, headers={"Retry-After": "5"})
        self._waits[caller.ticket] += 1
        try:
            yield
        finally:
            self._waits[caller.ticket] -= 1
            if not self._waits[caller.ticket]:
                del self._waits[caller.ticket]

    def _opened(self, text: str) -> Ticket:
        if not self._ticket_keys:
            raise _unauthorized("this gateway has no ticket key", "invalid_token")
        try:
            return opened(text, self._ticket_keys)
        except TicketError as wrong:
            raise _unauthorized(str(wrong), "invalid_token") from None

    async def _rights(self, sha256: bytes, also_while_away: bool = False) -> Rights | None:
        until, rights = self._known.get(sha256, (0.0, None))
        if until <= time.monotonic():
            if sha256 not in self._asked:  # a hundred requests at once ask once
                self._asked[sha256] = asyncio.create_task(self._look(sha256))
            try:
                rights = await asyncio.shield(self._asked[sha256])
            except Problem:
                if rights is None or not also_while_away:
                    raise
        if rights is not None and rights.expires_at is not None and rights.expires_at <= time.time():
            return None
        return rights

    async def _look(self, sha256: bytes) -> Rights | None:
        try:
            rights: Rights | None = await self._store.run(use_token(sha256))
            self._known.pop(sha256, None)
            while len(self._known) >= REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[sha256] = time.monotonic() + REMEMBERED_S, rights
            return rights
        finally:
            del self._asked[sha256]

    def _note_wrong(self, request: Request) -> None:
        self._counts.tokens_refused += 1
        self._wrong += 1
        if time.monotonic() - self._told_at >= _TOLD_EVERY_S:
            peer = request.client.host if request.client else None
            text = f"{self._wrong} requests with a wrong token"
            log.say(Event.TOKENS_REFUSED, text, logging.WARNING, count=self._wrong, last_peer=peer)
            self._wrong, self._told_at = 0, time.monotonic()


def unseen(kind: str, number: int) -> Problem:
    return not_found(f"{'task' if kind == TASK else f'process {kind}'} {number}")


def _credentials(request: Request) -> str | None:
    """The word after Bearer, or ?ticket=: an EventSource can't set headers. Both at once is somebody's mistake."""
    header, query = request.headers.get("authorization"), request.query_params.get("ticket")
    if header is None:
        return query
    if query is not None:
        raise _unauthorized("give a token or a ticket once: as a header or as ?ticket=, not both")
    scheme, _, word = header.partition(" ")
    return word.strip() if scheme.lower() == "bearer" else None


def _unauthorized(detail: str, error: str | None = None) -> Problem:
    challenge = 'Bearer realm="reproq"' + (f', error="{error}"' if error else "")
    return Problem(401, "unauthorized", detail, headers={"WWW-Authenticate": challenge})
