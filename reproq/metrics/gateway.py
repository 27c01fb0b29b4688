"""The metrics of a gateway, from what it counts of itself."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Protocol

from reproq.metrics.families import Family, Labels, Sample, counter, gauge


class Counts(Protocol):
    """By route and method; `seconds` by route and upper bound, each request in one of them."""

    @property
    def requests(self) -> Mapping[tuple[str, str, int], int]: ...
    @property
    def seconds(self) -> Mapping[tuple[str, float], int]: ...
    @property
    def seconds_sum(self) -> Mapping[str, float]: ...
    @property
    def tokens_refused(self) -> int: ...
    @property
    def looks(self) -> int: ...
    @property
    def look_seconds(self) -> float: ...
    @property
    def waiting(self) -> int: ...


def gateway_families(counts: Counts, bounds: tuple[float, ...]) -> list[Family]:
    requests: list[tuple[Labels, float]] = [
        ({"route": route, "method": method, "status": str(status)}, count)
        for (route, method, status), count in counts.requests.items()
    ]
    return [
        counter("reproq_gateway_requests", "Requests that were answered.", requests),
        Family("reproq_gateway_request_seconds", "histogram", "From a request to its answer.", _times(counts, bounds)),
        gauge("reproq_gateway_waiting", "Requests that wait for a task or a process now.", [({}, counts.waiting)]),
        counter(
            "reproq_gateway_tokens_refused", "Requests with a token that is not good.", [({}, counts.tokens_refused)]
        ),
        counter("reproq_gateway_looks", "Looks into the database for all who wait.", [({}, counts.looks)]),
        counter("reproq_gateway_look_seconds", "Time that these looks took.", [({}, counts.look_seconds)]),
    ]


def _times(counts: Counts, bounds: tuple[float, ...]) -> tuple[Sample, ...]:
    return tuple(sample for route in sorted(counts.seconds_sum) for sample in _of_route(counts, route, bounds))


def _of_route(counts: Counts, route: str, bounds: tuple[float, ...]) -> list[Sample]:
    edges = (*bounds, float("inf"))
    below = list(accumulate(counts.seconds.get((route, edge), 0) for edge in edges))
    buckets: list[Sample] = [
        ("_bucket", {"route": route, "le": "+Inf" if edge == edges[-1] else repr(float(edge))}, count)
        for edge, count in zip(edges, below, strict=True)
    ]
    labels = {"route": route}
    return [*buckets, ("_count", labels, below[-1]), ("_sum", labels, counts.seconds_sum[route])]
