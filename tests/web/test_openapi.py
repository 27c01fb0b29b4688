"""The gateway does what its OpenAPI document says: schemathesis asks it by the document, rightly and wrongly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import trustme

from reproq.web.openapi import DOCUMENT
from tests.web.conftest import Gateway

EXAMPLES = 10
# Every task is over as soon as it is stored: nothing that the document describes is waited for.
AT_ONCE = """
    create function public.at_once() returns trigger language plpgsql as $$
    begin
        new.status := 'SUCCESSFUL'; new.result_json := 'null'; new.completed_at := now();
        new.waiting_for := 0; new.unique_among := null;
        return new;
    end $$;
    create trigger at_once before insert on queues.task_runs for each row execute function public.at_once()"""
# 422 is what a key used before, or a task to wait for that isn't there, gets: the document can't tell which are.
# NUL is refused as PostgreSQL refuses it, and no schema can say that of every text in a payload.
_SETTINGS = """
[generation]
allow-x00 = false
deterministic = true

[checks]
positive_data_acceptance.expected-statuses = ["2xx", "401", "403", "404", "409", "422"]
"""


def test_the_gateway_keeps_to_its_document(gateway: Gateway, tmp_path: Path, authority: trustme.CA) -> None:
    """With one worker: two threads that parse Python at once fail in Python 3.11 (a SystemError of ast.parse)."""
    gateway.database.execute(AT_ONCE)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    (tmp_path / "schemathesis.toml").write_text(_SETTINGS)
    url = f"https://localhost:{gateway.port}"
    done = subprocess.run(
        [str(Path(sys.executable).with_name("schemathesis")), "run", f"{url}/v1/openapi.json",
         "--header", f"Authorization: Bearer {gateway.token}", "--tls-verify", "ca.pem", "--checks", "all",
         "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", str(EXAMPLES), "--no-color",
         "--suppress-health-check", "all", "--warnings", "off", "--request-timeout", "30", "--workers", "1"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=110,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "No issues found" in done.stdout, done.stdout


def test_every_request_may_be_too_long_and_only_those_that_need_a_token_may_lack_one() -> None:
    for path, ways in DOCUMENT["paths"].items():
        for way in ways.values():
            codes = set(way["responses"])
            assert {"400", "405", "431", "500"} <= codes, path
            assert bool(codes & {"401", "403"}) == bool(way["security"]), path
