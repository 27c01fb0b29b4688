"""Reproq: tasks in PostgreSQL, each run in a process of its own.

Every child imports this package before any code of yours, so names are loaded when they are first asked for.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from reproq.client import Client as Client
    from reproq.tasks import Context as Context
    from reproq.tasks import Fail as Fail
    from reproq.tasks import Retry as Retry
    from reproq.tasks import task as task

_HOMES = {
    "Client": "reproq.client",
    "Context": "reproq.tasks",
    "Fail": "reproq.tasks",
    "Retry": "reproq.tasks",
    "task": "reproq.tasks",
}
__all__ = ["Client", "Context", "Fail", "Retry", "task"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'reproq' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
