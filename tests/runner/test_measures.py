"""What a leader's measurements become."""

from __future__ import annotations

from reproq.queue.measure import Measure
from reproq.runner.measures import Measures

READY: Measure = ("reproq_queue_tasks", {"queue": "mail", "status": "ready"}, 7.0)
RUNNING: Measure = ("reproq_queue_tasks", {"queue": "mail", "status": "running"}, 2.0)
COMPLETE: Measure = ("reproq_measure_complete", {}, 1.0)


def told(measures: Measures, *measured: Measure) -> dict[str, float]:
    measures.take(measured)
    (family,) = (one for one in measures.families() if one.name == "reproq_queue_tasks")
    return {labels["status"]: value for _, labels, value in family.samples}


def test_a_queue_that_has_become_empty_is_told_with_zero() -> None:
    measures = Measures()
    assert told(measures, READY, RUNNING, COMPLETE) == {"ready": 7.0, "running": 2.0}
    assert told(measures, READY, COMPLETE) == {"ready": 7.0, "running": 0.0}
    assert told(measures, COMPLETE) == {"ready": 0.0, "running": 0.0}


def test_a_queue_that_was_not_looked_at_is_not_called_empty() -> None:
    measures = Measures()
    told(measures, READY, COMPLETE)
    assert told(measures, ("reproq_measure_complete", {}, 0.0)) == {}


def test_who_no_longer_leads_tells_nothing_of_then_when_it_leads_again() -> None:
    measures = Measures()
    told(measures, READY, COMPLETE)
    measures.forget()
    assert told(measures, COMPLETE) == {}
