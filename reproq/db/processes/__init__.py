"""Business processes as an operator sees them: which there are, what happened in one, what its supervisor would do.

Nothing here knows a particular process. Its tables and functions bear names by one convention, and so a process of the
user's own is read like those that come with Reproq:

    root        <schema>.<process>_task, its id <process>_task_id
    facts       <schema>.<process>_task_<fact>, with that id or an attempt_id, and created_at
    supervisor  <schema>.<process>_supervisor (payload jsonb)
"""

from reproq.db.processes.catalog import Process, all_processes, find_process
from reproq.db.processes.errors import NotThere, ProcessError, UnknownProcess
from reproq.db.processes.listing import listed
from reproq.db.processes.orders import resolve, retry
from reproq.db.processes.rehearsal import Rehearsal, rehearse
from reproq.db.processes.timeline import Timeline, timeline_of

__all__ = [
    "NotThere",
    "Process",
    "ProcessError",
    "Rehearsal",
    "Timeline",
    "UnknownProcess",
    "all_processes",
    "find_process",
    "listed",
    "rehearse",
    "resolve",
    "retry",
    "timeline_of",
]
