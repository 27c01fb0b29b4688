"""The door for applications: enqueue, wait for a result, ask, cancel. Light to import; drivers are loaded when used."""

from reproq.client.client import Client
from reproq.client.errors import (
    ClientError,
    ConnectionLost,
    EnqueueRefused,
    TaskCancelled,
    TaskFailed,
    UnknownTask,
)
from reproq.client.options import ManyOptions, Options
from reproq.client.status import TaskStatus

__all__ = [
    "Client",
    "ClientError",
    "ConnectionLost",
    "EnqueueRefused",
    "ManyOptions",
    "Options",
    "TaskCancelled",
    "TaskFailed",
    "TaskStatus",
    "UnknownTask",
]
