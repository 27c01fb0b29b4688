"""The units of the gateway and the dispatcher."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request

import pytest

from tests.units.conftest import Site
from tests.units.machine import ROOT
from tests.worker.harness import wait_until

GATEWAY, DISPATCHER = "reproq-gateway.service", "reproq-dispatcher.service"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.skipif(not (ROOT / "reproq/web").exists(), reason="this version has no gateway")
def test_the_gateway_answers_under_its_hardening_and_stops_in_order(site: Site) -> None:
    port = free_port()
    site.machine.write("/etc/reproq/credentials/gateway_url", site.database.app_dsn, "600")
    site.machine.write("/etc/reproq/credentials/ticket_key", "5c" * 32, "600")
    site.environ("gateway.env", REPROQ_SERVE_LISTEN=f"127.0.0.1:{port}")
    site.start(GATEWAY)
    assert status(f"http://127.0.0.1:{port}/v1/tasks/1") in (401, 403), "it answers, and wants to know who asks"
    site.machine.systemctl("stop", GATEWAY)
    assert site.machine.is_(GATEWAY, ActiveState="inactive", Result="success", NRestarts="0")


def status(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


@pytest.mark.skipif(not (ROOT / "cmd/dispatcher.py").exists(), reason="this version has no dispatcher")
def test_the_dispatcher_runs_under_its_hardening_and_stops_in_order(site: Site) -> None:
    login = "units_dispatcher"
    site.database.execute(f"drop role if exists {login}")
    site.database.execute(f"create role {login} login password 'units' in role reproq_dispatcher")
    try:
        address = f"postgresql://{login}:units@127.0.0.1:{site.database.server.port}/{site.database.name}"
        site.machine.write("/etc/reproq/credentials/dispatcher_url", address, "600")
        site.start(DISPATCHER)
        count = "select count(*) from pg_stat_activity where usename = %s"
        wait_until(lambda: site.database.execute(count, login)[0][0], lambda: site.machine.log(DISPATCHER))
        site.machine.systemctl("stop", DISPATCHER)
        assert site.machine.is_(DISPATCHER, ActiveState="inactive", Result="success", NRestarts="0")
    finally:
        site.clear()
        site.database.execute(f"drop role {login}")
