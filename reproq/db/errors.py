"""What a database error means for whoever has to act on it.

libpq gives no SQLSTATE for a connection that never came about, only the server's words; those are matched in English.
A server that speaks another language is therefore waited for instead of refused: the message is printed all the same.
"""

import enum
import re

import psycopg

from reproq.models.errors import ReproqError


class DatabaseError(ReproqError):
    """The base of everything that goes wrong between Reproq and its database."""


class MigrationRefused(DatabaseError):
    """The schema can't be brought to this code's version by this login; the message names the next step."""


class EmbeddedError(DatabaseError):
    """The embedded server can't be started or reached; the message names the folder and the next step."""


class Kind(enum.Enum):
    """Who acts on an error, and how."""

    LATE = "late"  # the server is away, starting, full or read-only: wait and try again
    REFUSED = "refused"  # wrong password, unknown database: a person must act, exit status 2
    BUSY = "busy"  # the statement lost against a lock or a time limit: try it again
    OURS = "ours"  # a bug, a missing migration or a missing grant
    DATA = "data"  # the values given were refused


LATE, REFUSED, BUSY, OURS, DATA = Kind

_BY_STATE = {
    "57014": BUSY,  # statement_timeout or a cancel
    "55P03": BUSY,  # lock_timeout or NOWAIT
    "55006": BUSY,  # object in use
    "25006": LATE,  # a standby, or default_transaction_read_only during a failover
    "25P03": LATE,  # idle_in_transaction_session_timeout closed the session
    "25P04": LATE,  # transaction_timeout closed the session
    "XX000": BUSY,  # "tuple concurrently updated" and its like
    "3D000": REFUSED,
    "58000": LATE,
    "58030": LATE,
}
_BY_CLASS = {
    "08": LATE, "57": LATE, "53": LATE, "54": DATA, "40": BUSY, "28": REFUSED, "22": DATA, "23": DATA, "RQ": DATA,
}  # fmt: skip
_REFUSED_WORDS = re.compile(
    r"password authentication failed|authentication failed for user|no password supplied|no pg_hba\.conf entry"
    r"|(role|database) \"[^\"]*\" does not exist|is not permitted to log in|permission denied for database"
    r"|no such (database|user)|SASL authentication failed|invalid (connection option|URI|port number)"
    r"|missing \"=\" after|certificate verify failed|invalid integer value|Servname not supported",
)


def classify(exc: psycopg.Error) -> Kind:
    """Say what an error of psycopg asks for: waiting, giving up, trying again, mending."""
    state = exc.sqlstate
    if state is not None:
        return _BY_STATE.get(state) or _BY_CLASS.get(state[:2], OURS)
    if _REFUSED_WORDS.search(str(exc)):
        return REFUSED
    return LATE if isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError) else OURS


def first_line(exc: BaseException) -> str:
    """The error in one line, for a log line or an exit message."""
    return next(iter(str(exc).strip().splitlines()), type(exc).__name__)
