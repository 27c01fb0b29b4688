"""What the leader asks of the whole database for all workers' metrics: seldom, and more seldom where it takes long."""

from __future__ import annotations

import time
from collections.abc import Sequence

from reproq.metrics import Family, gauge
from reproq.queue.measure import Measure

_EVERY_S = 15.0
_SHARE = 20  # at least so many times as long as it took
_MISSED = 4  # after so many times that none came, the last one is no news any more
_OF_QUEUES = "reproq_queue_"
_MOST_QUEUES = 200  # that queues.measure() looks at
_MOST_SERIES = 2000
_HELP = {
    "reproq_queue_tasks": "Tasks of a queue: ready, scheduled for later, or running. Counted up to 20000 of a kind.",
    "reproq_queue_has_more": "Whether a queue has more tasks than were counted.",
    "reproq_queue_oldest_ready_seconds": "How long the oldest ready task of a queue has been due.",
    "reproq_dead_letters": "Tasks that have failed for good. Beyond 20000 an estimate.",
    "reproq_outbox_deliveries": "Events on their way to a sink, waiting or parked. Counted up to 5000 of a kind.",
    "reproq_outbox_oldest_seconds": "Age of the oldest event that waits for a sink.",
    "reproq_workers_live": "Workers whose heartbeat came within 90 s.",
    "reproq_schedule_lag_seconds": "How long ago the next slot of a schedule should have been enqueued.",
    "reproq_oldest_snapshot_seconds": "Age of the oldest transaction with a snapshot: vacuum removes nothing younger.",
    "reproq_sessions_hidden": "Sessions whose age the server did not tell: grant pg_read_all_stats to reproq_owner.",
    "reproq_table_dead_rows": "Row versions that vacuum has still to remove.",
    "reproq_table_live_rows": "Rows, by the server's own statistics.",
    "reproq_table_size_bytes": "Size of a table with its indexes.",
    "reproq_measure_complete": "Whether the last measurement looked at every queue.",
    "reproq_measure_seconds": "How long the last measurement took the database.",
}


class Measures:
    def __init__(self) -> None:
        self._last: Sequence[Measure] = ()
        self._at = 0.0
        self._again_in_s = _EVERY_S
        self._of_queues: list[tuple[str, tuple[tuple[str, str], ...]]] = []  # told once, names and labels

    def take(self, measured: Sequence[Measure]) -> float:
        """Answers when to ask again."""
        self._last, self._at = [*measured, *self._emptied(measured)], time.monotonic()
        return self.took(next((value for name, _, value in measured if name == "reproq_measure_seconds"), 0.0))

    def _emptied(self, measured: Sequence[Measure]) -> list[Measure]:
        """Queues that had tasks and have none: where a series ends, nobody sees that it has gone down to zero."""
        there = {(name, tuple(sorted(labels.items()))) for name, labels, _ in measured if name.startswith(_OF_QUEUES)}
        emptied = [each for each in self._of_queues if each not in there]
        self._of_queues = [*emptied, *there][-_MOST_SERIES:]
        complete = any(name == "reproq_measure_complete" and value for name, _, value in measured)
        all_of_them = complete and len({dict(labels)["queue"] for _, labels in there}) < _MOST_QUEUES
        return [(name, dict(labels), 0.0) for name, labels in emptied] if all_of_them else []

    def took(self, seconds: float) -> float:
        """The database is to spend a twentieth of its time on this at most, with an answer or without."""
        self._again_in_s = max(_EVERY_S, seconds * _SHARE)
        return self._again_in_s

    def forget(self) -> None:
        """Another worker leads and tells it: two would be summed."""
        self._last = ()
        self._of_queues.clear()

    def families(self) -> list[Family]:
        """From any thread. What is too old is worse than nothing: an alert would go by it."""
        last, age_s = self._last, time.monotonic() - self._at
        if not last or age_s > _MISSED * self._again_in_s:
            return []
        names = dict.fromkeys([*_HELP, *(name for name, _, _ in last)])
        by_name = {name: [(labels, value) for each, labels, value in last if each == name] for name in names}
        told = [gauge(name, _HELP.get(name, "Told by queues.measure()."), values) for name, values in by_name.items()]
        return [*told, gauge("reproq_measure_age_seconds", "How old these measurements are.", [({}, age_s)])]
