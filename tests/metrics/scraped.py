"""A worker's answers over HTTP, as a probe and Prometheus see them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from tests.worker.harness import House, Worker, wait_until

FREE_PORT = "127.0.0.1:0"


def measured_worker(house: House, *arguments: str, **environ: str) -> Worker:
    return house.worker("--metrics-address", FREE_PORT, *arguments, **environ)


def get(worker: Worker, path: str, accept: str = "", patience_s: float = 10.0) -> tuple[int, str, str]:
    """Status, content type, body."""
    address = worker.wait_event("metrics_served")["address"]
    request = urllib.request.Request(f"http://{address}{path}", headers={"Accept": accept} if accept else {})
    try:
        with urllib.request.urlopen(request, timeout=patience_s) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def readiness(worker: Worker) -> dict[str, Any]:
    return dict(json.loads(get(worker, "/readyz")[2]))


def is_ready(worker: Worker) -> bool:
    return get(worker, "/readyz")[0] == 200


class Scrape:
    def __init__(self, text: str, *, is_open: bool = False) -> None:
        self.text = text
        self.families: list[Metric] = list(parse_open(text) if is_open else parse_plain(text))  # type: ignore[no-untyped-call]

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples with these labels among theirs; 0 where there are none."""
        return sum(value for _labels, value in self.samples(name, **labels))

    def samples(self, name: str, **labels: str) -> Iterator[tuple[dict[str, str], float]]:
        for family in self.families:
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    yield sample.labels, sample.value

    @property
    def names(self) -> set[str]:
        """Of all series that are or may be told: a counter's first sample may be still to come."""
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        return {f.name + suffix for f in self.families for suffix in suffixes.get(f.type, ("",))}


def scrape(worker: Worker) -> Scrape:
    status, kind, text = get(worker, "/metrics")
    assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return Scrape(text)


def scrape_when(worker: Worker, condition: Callable[[Scrape], object]) -> Scrape:
    """The first scrape of which it is true."""

    def fitting() -> Scrape | None:
        seen = scrape(worker)
        return seen if condition(seen) else None

    found = wait_until(fitting, lambda: f"another answer than {scrape(worker).text}", every_s=0.05)
    assert found is not None
    return found
