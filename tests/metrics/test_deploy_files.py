"""The alert rules, the dashboard and the page about metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from reproq.metrics.gateway import gateway_families
from reproq.web.counts import BOUNDS_S, Counts
from tests.metrics.scraped import measured_worker, scrape_when
from tests.worker.harness import ROOT, House

RULES = ROOT / "deploy/prometheus/reproq.rules.yml"
BOARD = ROOT / "deploy/grafana/reproq.json"
METRIC = re.compile(r"\b(?:reproq|process)_[a-z_]+")
LABEL = re.compile(r"([a-z_]+)\s*(?:=~|!~|!=|=)\s*\"")


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]


def targets() -> list[str]:
    board = json.loads(BOARD.read_text("utf-8"))
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]


def test_rules_dashboard_and_page_speak_of_what_a_worker_tells_and_the_page_of_all_of_it(house: House) -> None:
    house.app("@task('ends.its.child', max_attempts=1)\ndef ends(payload): os._exit(1)\n")
    worker = measured_worker(house)
    house.final(house.enqueue("ends.its.child"))
    wanted = ("reproq_measure_complete", "reproq_child_ends_total", "reproq_outcomes_total")
    told = scrape_when(worker, lambda s: all(map(s.value, wanted)))
    expressions = [*(rule["expr"] for rule in rules()), *targets()]
    assert {name for text in expressions for name in METRIC.findall(text)} - told.names == set()
    labels = {label for family in told.families for sample in family.samples for label in sample.labels}
    assert {label for text in expressions for label in LABEL.findall(text)} - labels == {"instance"}
    page = set(METRIC.findall((ROOT / "docs/metrics.md").read_text("utf-8")))
    kinds = [(family.name, family.type) for family in told.families]
    kinds += [(family.name, family.kind) for family in gateway_families(Counts(), BOUNDS_S)]
    families = {name + ("_total" if kind == "counter" else "") for name, kind in kinds}
    assert page - {"reproq_owner", "reproq_reader"} == families


def test_every_alert_says_what_is_wrong_and_what_to_do() -> None:
    for rule in rules():
        assert rule["annotations"].keys() == {"summary", "action"}, rule["alert"]
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
    assert len({rule["alert"] for rule in rules()}) == len(rules()) > 10


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool isn't installed")
def test_promtool_accepts_the_rules() -> None:
    done = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_two_panels_of_the_dashboard_share_an_id_or_a_place() -> None:
    panels = json.loads(BOARD.read_text("utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in panels
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) == 23
