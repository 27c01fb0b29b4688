"""The trace that an enqueue belongs to, as W3C writes it. Where nobody has loaded OpenTelemetry, that is a look into a
dictionary."""

from __future__ import annotations

import sys


def current_trace() -> str | None:
    """The traceparent of the span that is open here."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
