"""One trace from the enqueue through the child, attempt after attempt."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from reproq import Client
from reproq.client.client import _with_trace
from tests.worker.harness import ROOT, House

_SET_UP = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

class Lines(SpanExporter):
    def export(self, spans):
        with open(HERE + "/spans", "a") as file:
            file.writelines(span.to_json(indent=None) + "\\n" for span in spans)
        return SpanExportResult.SUCCESS

trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(Lines()))
tracer = trace.get_tracer("shop")
"""
tracer = TracerProvider().get_tracer("test")


def spans(house: House) -> list[dict[str, Any]]:
    path = house.mark("spans")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def number(text: str) -> int:
    return int(text, 16)


def test_one_trace_goes_from_the_enqueue_through_every_attempt(house: House) -> None:
    house.app(
        _SET_UP + "@task('shop.order', max_attempts=2, backoff_base=0.01)\ndef order(payload, ctx):\n"
        "    with tracer.start_as_current_span('charge'): pass\n"
        "    if ctx.attempt == 1: raise ValueError('not yet')\n"
    )
    with tracer.start_as_current_span("checkout") as checkout, Client(house.database.app_dsn) as client:
        task = client.enqueue("shop.order")
    worker = house.worker()
    assert house.final(task)["status"] == "SUCCESSFUL"
    charge1, first, charge2, second = spans(house)
    here = checkout.get_span_context()
    assert {number(span["context"]["trace_id"]) for span in (charge1, first, charge2, second)} == {here.trace_id}
    assert [number(span["parent_id"]) for span in (first, second)] == [here.span_id] * 2
    assert charge1["parent_id"] == first["context"]["span_id"]
    assert [span["status"]["status_code"] for span in (first, second)] == ["ERROR", "UNSET"]
    assert first["events"][0]["attributes"]["exception.message"] == "not yet"
    assert second["kind"] == "SpanKind.CONSUMER"
    assert second["name"] == "process shop.order"
    assert second["attributes"] == {
        "messaging.system": "reproq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "default",
        "messaging.message.id": str(task),
        "reproq.task.type": "shop.order",
        "reproq.task.attempt": 2,
        "reproq.task.max_attempts": 2,
    }
    retried = worker.wait_event("task_retried")
    assert f"{here.trace_id:032x}" in retried["trace"]


def test_an_async_task_has_its_own_span_and_what_it_enqueues_belongs_to_it(house: House) -> None:
    house.app(
        _SET_UP + "from reproq import Client\n"
        "@task('shop.first')\nasync def first(payload):\n"
        "    with Client() as client: return client.enqueue('shop.second')\n"
        "@task('shop.second')\ndef second(payload): pass\n"
    )
    house.worker("--child-env", "DATABASE_URL", DATABASE_URL=house.database.app_dsn)
    with tracer.start_as_current_span("checkout"), Client(house.database.app_dsn) as client:
        for _ in range(2):  # the first async task of a child is no proof: its event loop is made in its span
            house.final(client.result(client.enqueue("shop.first"), timeout=60))
    firsts = [span for span in spans(house) if span["name"] == "process shop.first"]
    seconds = [span for span in spans(house) if span["name"] == "process shop.second"]
    assert [span["parent_id"] for span in seconds] == [span["context"]["span_id"] for span in firsts]
    assert len({span["context"]["span_id"] for span in firsts}) == 2


def test_a_trace_that_is_no_traceparent_is_kept_and_parent_of_nothing(house: House) -> None:
    house.app(_SET_UP + "@task('shop.order')\ndef order(payload): pass\n")
    house.worker()
    task = house.enqueue("shop.order", trace='order-4711 "quoted"')
    assert house.final(task)["trace"] == 'order-4711 "quoted"'
    (span,) = spans(house)
    assert span["parent_id"] is None


def test_a_child_without_a_provider_makes_no_spans(house: House) -> None:
    house.app(
        "from opentelemetry import trace\n"
        "@task('shop.order')\ndef order(payload): return trace.get_current_span().is_recording()\n"
    )
    house.worker()
    with tracer.start_as_current_span("checkout"), Client(house.database.app_dsn) as client:
        assert client.result(client.enqueue("shop.order"), timeout=60) is False


def test_a_trace_that_the_caller_names_is_left_as_it_is() -> None:
    with tracer.start_as_current_span("checkout"):
        assert _with_trace({"trace": "mine"}) == {"trace": "mine"}
    assert _with_trace({"priority": 1}) == {"priority": 1}
    assert trace.get_current_span().get_span_context().is_valid is False


@pytest.mark.parametrize("module", ["reproq.client", "reproq.executor.child", "reproq.runner.runner"])
def test_nobody_loads_opentelemetry_who_does_not_use_it(module: str) -> None:
    code = f"import sys, {module}; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
