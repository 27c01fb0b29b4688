"""Tickets: what lets a browser wait for its own task, and for nothing else.

    from reproq.tickets import ticket

    ticket(7)                                    # opens task 7 for five minutes
    ticket(12, process="comms.send_email")       # opens that process

A ticket is one line of text that any language can make:

    rqt1~read~<task or schema.process>~<id>~<expiry, Unix time>~<HMAC-SHA256 of all before this ~, base64url without =>

The key is the text of REPROQ_TICKET_KEY. Two may stand there, separated by a comma: the first makes tickets, both open
them, so that a key can be changed while tickets are out.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass

VERSION = "rqt1"
TASK = "task"
LONGEST_S = 86_400
SHORTEST_KEY = 32
_CLOCKS_DIFFER_S = 60
_FORM = re.compile(
    r"(rqt1~read~(task|[A-Za-z_][A-Za-z0-9_]{0,62}\.[A-Za-z_][A-Za-z0-9_]{0,62})~([1-9][0-9]{0,18})~([1-9][0-9]{9,11}))"
    r"~([A-Za-z0-9_-]{43})",
    re.ASCII,
)


class TicketError(ValueError):
    """The ticket opens nothing, or none can be made; the message says why and never repeats a ticket or a key."""


@dataclass(frozen=True, slots=True)
class Ticket:
    kind: str  # task, or schema.process
    id: int
    expires_at: int


def ticket(task_id: int, *, key: str | None = None, expires_in: float = 300, process: str | None = None) -> str:
    """Make a ticket that opens one task, or one process, for `expires_in` seconds (a day at most)."""
    if not 0 < expires_in <= LONGEST_S:
        raise TicketError(f"a ticket is good for up to {LONGEST_S} seconds, not {expires_in:g}")
    signing = (keys(key) if key is not None else from_environment())[0]
    signed = f"{VERSION}~read~{process or TASK}~{int(task_id)}~{int(time.time() + expires_in)}"
    made = f"{signed}~{_mac(signing, signed)}"
    if _FORM.fullmatch(made) is None:
        raise TicketError(f"{process or TASK!r:.80} {task_id!r:.40} isn't a process and an id")
    return made


def opened(text: str, known: Sequence[str], now: float | None = None) -> Ticket:
    """What a ticket opens, or TicketError."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise TicketError("this isn't a ticket")
    signed, kind, number, expiry, mac = form.groups()
    # Every key is tried, so that the time it takes doesn't tell which one fits.
    if not any([hmac.compare_digest(_mac(key, signed), mac) for key in known]):  # noqa: C419
        raise TicketError("the ticket's signature is wrong")
    now = time.time() if now is None else now
    if int(expiry) <= now:
        raise TicketError("the ticket has expired")
    if int(expiry) > now + LONGEST_S + _CLOCKS_DIFFER_S:
        raise TicketError(f"the ticket would be good for more than {LONGEST_S} seconds")
    return Ticket(kind, int(number), int(expiry))


def keys(text: str) -> tuple[str, ...]:
    """One key, or two while they change: separated by commas or line ends."""
    found = tuple(word for word in re.split(r"[,\s]+", text) if word)
    if not 1 <= len(found) <= 2 or any(len(word) < SHORTEST_KEY or not word.isascii() for word in found):
        raise TicketError(f"one or two keys are needed, of {SHORTEST_KEY} ASCII characters or more each")
    return found


def from_environment() -> tuple[str, ...]:
    text, path = os.environ.get("REPROQ_TICKET_KEY", ""), os.environ.get("REPROQ_TICKET_KEY_FILE", "")
    if not text and path:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    if not text:
        raise TicketError("no key: give key=… or set REPROQ_TICKET_KEY, the same as the gateway's")
    return keys(text)


def _mac(key: str, signed: str) -> str:
    digest = hmac.new(key.encode(), signed.encode(), hashlib.sha256).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode()
