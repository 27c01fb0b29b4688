"""Families as text, with Prometheus' own parsers as the judges."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import pytest

from reproq.metrics import Histogram, Names, chosen_type, counter, gauge, histogram, render
from reproq.metrics.gateway import gateway_families
from reproq.metrics.text import OPEN, PLAIN
from tests.metrics.scraped import Scrape


def read(*families: object, is_open: bool = False) -> Scrape:
    return Scrape(render(families, OPEN if is_open else PLAIN).decode(), is_open=is_open)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_open", [False, True])
def test_labels_keep_every_character(is_open: bool) -> None:
    odd = 'a "quote", a \\ backslash,\na new line, é and {braces}='
    assert list(read(gauge("g", "Help.", [({"name": odd}, 1.5)]), is_open=is_open).samples("g")) == [
        ({"name": odd}, 1.5)
    ]


@pytest.mark.parametrize("is_open", [False, True])
def test_a_histogram_is_cumulative_and_its_bounds_belong_to_the_lower_bucket(is_open: bool) -> None:
    times = Histogram()
    for seconds in (0.001, 0.002, 0.002, 5.0, 99999.0):
        times.add(seconds)
    seen = read(histogram("h_seconds", "Help.", [({"type": "a"}, times)]), is_open=is_open)
    assert seen.value("h_seconds_bucket", le="0.001") == 1
    assert seen.value("h_seconds_bucket", le="0.0025") == 3
    assert seen.value("h_seconds_bucket", le="5.0") == 4
    assert seen.value("h_seconds_bucket", le="7200.0") == 4
    assert seen.value("h_seconds_bucket", le="+Inf") == seen.value("h_seconds_count") == 5
    assert seen.value("h_seconds_sum") == pytest.approx(100004.005)


@pytest.mark.parametrize("is_open", [False, True])
def test_a_counter_without_a_sample_is_still_announced(is_open: bool) -> None:
    assert read(counter("c", "Help.", []), is_open=is_open).names == {"c_total"}


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        ("text/plain;version=0.0.4", PLAIN),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OPEN),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.9", PLAIN),
        ("application/openmetrics-text;q=0", PLAIN),
        ("application/openmetrics-text;q=1.2.3", PLAIN),
    ],
)
def test_the_format_is_the_one_that_the_header_prefers(accept: str, kind: str) -> None:
    assert chosen_type(accept) == kind


def test_names_beyond_the_bound_are_all_one() -> None:
    names = Names(most=2)
    assert [names.label(name) for name in ("a", "b", "c", "a", "d")] == ["a", "b", "other", "a", "other"]


@dataclass
class Counts:
    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    seconds: Counter[tuple[str, float]] = field(default_factory=Counter)
    seconds_sum: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    tokens_refused: int = 2
    looks: int = 5
    look_seconds: float = 0.25
    waiting: int = 3


def test_a_gateway_tells_its_requests_by_route() -> None:
    counts = Counts()
    counts.requests["/v1/tasks", "POST", 201] = 4
    counts.seconds.update({("/v1/tasks", 0.1): 3, ("/v1/tasks", float("inf")): 1})
    counts.seconds_sum["/v1/tasks"] = 12.5
    seen = read(*gateway_families(counts, (0.1, 2.5)), is_open=True)
    assert seen.value("reproq_gateway_requests_total", route="/v1/tasks", method="POST", status="201") == 4
    assert seen.value("reproq_gateway_request_seconds_bucket", le="2.5") == 3
    assert seen.value("reproq_gateway_request_seconds_count") == 4
    assert seen.value("reproq_gateway_waiting") == 3
