"""A span around every task, where the app has set up OpenTelemetry. No other child loads this.

Its parent is what stood in the task's `trace`: the span in which it was enqueued. Every attempt has a span of its own
under the same parent. It ends with the handler; that of an attempt whose process is killed dies with it.
"""

from __future__ import annotations

import sys

from reproq import __version__
from reproq.tasks import Snooze

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    Order = dict[str, Any]
    Handler = Callable[[Order], Any]


def is_set_up() -> bool:
    """Whether the app's modules have chosen a tracer provider: the default one records nothing."""
    if "opentelemetry.trace" not in sys.modules:
        return False
    from opentelemetry import trace

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


def traced(handlers: dict[str, Handler]) -> dict[str, Handler]:
    from opentelemetry import trace

    tracer = trace.get_tracer("reproq", __version__)
    return {name: _traced(handler, tracer) for name, handler in handlers.items()}


def _traced(handler: Handler, tracer: Tracer) -> Handler:
    from opentelemetry.trace import SpanKind, use_span

    def run(order: Order) -> Any:
        span = tracer.start_span(
            f"process {order['task_type']}",
            context=_parent(order.get("trace")),
            kind=SpanKind.CONSUMER,
            attributes=_attributes(order),
        )
        with use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                return handler(order)
            except BaseException as error:
                _note(span, error)
                raise

    return run


def _parent(trace: str | None) -> Context | None:
    """A `trace` that is no W3C traceparent is somebody's own text, and parent of nothing."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": trace}) if trace else None


def _attributes(order: Order) -> dict[str, Any]:
    """By the conventions for messaging, and what is ours alone."""
    return {
        "messaging.system": "reproq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": order["queue_name"],
        "messaging.message.id": str(order["id"]),
        "reproq.task.type": order["task_type"],
        "reproq.task.attempt": order["attempt"],
        "reproq.task.max_attempts": order["max_attempts"],
    }


def _note(span: Span, error: BaseException) -> None:
    from opentelemetry.trace import Status, StatusCode

    if isinstance(error, Snooze):
        span.set_attribute("reproq.task.snoozed", True)
        return
    span.record_exception(error)
    span.set_attribute("error.type", type(error).__qualname__)
    span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
