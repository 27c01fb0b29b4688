"""The manifest for Kubernetes says what the worker understands, and leaves it the time that it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from reproq.cli.commands import reproq
from reproq.config import load
from reproq.config.options import is_known
from tests.units.machine import ROOT

yaml = pytest.importorskip("yaml", reason="install pyyaml")
POD: dict[str, Any] = yaml.safe_load((ROOT / "deploy/kubernetes/worker.yaml").read_text())["spec"]["template"]["spec"]
(WORKER,) = POD["containers"]
ENVIRON = {entry["name"]: entry["value"] for entry in WORKER["env"]}


def test_its_settings_are_settings_and_its_command_is_a_command(tmp_path: Path) -> None:
    address = tmp_path / "worker_url"
    address.write_text("postgresql://worker:secret@db/shop\n")
    assert ENVIRON["REPROQ_DATABASE_URL_FILE"].startswith(WORKER["volumeMounts"][0]["mountPath"])
    environ = ENVIRON | {"REPROQ_DATABASE_URL_FILE": str(address)}
    known = {name: value for name, value in environ.items() if is_known(name)}
    assert set(environ) - set(known) <= {"REPROQ_METRICS_ADDRESS"}
    assert load(environ=known, worker=False).processes == 2
    program, command, *flags = WORKER["args"]
    found = reproq.get_command(click.Context(reproq), command)
    assert (program, found is not None) == ("reproq", True)
    assert found is not None
    assert set(flags) - {"email"} <= {flag for parameter in found.params for flag in parameter.opts}


def test_the_grace_period_is_longer_than_the_longest_stop() -> None:
    settings = load(environ={name: ENVIRON[name] for name in ENVIRON if not name.endswith(("FILE", "ADDRESS"))},
                    worker=False, need_database=False)  # fmt: skip
    longest = settings.drain_timeout_s + settings.kill_grace_s + settings.lease_s
    assert POD["terminationGracePeriodSeconds"] >= longest + 10


def test_probes_ask_the_port_that_the_worker_serves() -> None:
    port = int(ENVIRON["REPROQ_METRICS_ADDRESS"].rpartition(":")[2])
    assert {each["name"]: each["containerPort"] for each in WORKER["ports"]} == {"metrics": port}
    asked = {name: WORKER[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {get["port"] for get in asked.values()} == {"metrics"}
    assert [get["path"] for get in asked.values()] == ["/livez", "/livez", "/readyz"]
