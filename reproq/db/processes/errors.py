"""What can be wrong with a question about a process."""

from reproq.db.errors import DatabaseError


class ProcessError(DatabaseError):
    """The question can't be answered, or the order not be carried out; the message says why and what to do."""


class UnknownProcess(ProcessError):
    """There is no such process; the message names those that there are."""


class NotThere(ProcessError):
    """The process exists, but not the one with this number, or not in a state that allows what was asked."""
