"""The commands and snippets of docs/http.md, run as they stand there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from tests.web.conftest import TICKET_KEY, Gateway
from tests.web.test_openapi import AT_ONCE
from tests.worker.harness import ROOT

PAGE = (ROOT / "docs/http.md").read_text("utf-8")


def block(name: str) -> str:
    """The commands between the comment that says `run: name` and the next `end`."""
    section = PAGE.split(f"<!-- run: {name} -->")[1].split("<!-- end -->")[0]
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", section, re.S | re.M))


@pytest.mark.skipif(not shutil.which("curl") or not shutil.which("openssl"), reason="no curl or openssl here")
def test_the_commands_of_the_guide_answer_as_it_says(gateway: Gateway, tmp_path: Path, authority: trustme.CA) -> None:
    gateway.database.execute(AT_ONCE)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    environ = {
        "URL": f"https://localhost:{gateway.port}", "TOKEN": gateway.token, "REPROQ_TICKET_KEY": TICKET_KEY,
        "CURL_CA_BUNDLE": str(tmp_path / "ca.pem"), "PATH": os.environ["PATH"],
    }  # fmt: skip

    def said(name: str) -> str:
        done = subprocess.run(
            ["bash", "-ec", block(name)], env=environ, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    text = said("curl")
    stored, rest = json.JSONDecoder().raw_decode(text)
    assert (stored["id"], stored["is_new"], stored["ticket"][:18]) == (1, True, "rqt1~read~task~1~1")
    task, end = json.JSONDecoder().raw_decode(text[rest:])
    assert (task["status"], task["over"]) == ("SUCCESSFUL", True)
    assert "id: 0.SUCCESSFUL\nevent: over\ndata: " in text[rest + end :]
    assert '"url":"/v1/tasks/1","ticket":"rqt1~' in text
    assert json.loads(said("ticket"))["status"] == "SUCCESSFUL"


def test_the_python_of_the_guide_makes_tickets(tmp_path: Path) -> None:
    (snippet,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
    done = subprocess.run(
        [sys.executable, "-c", snippet], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert [line.split("~")[2:4] for line in done.stdout.split()] == [["task", "7"], ["comms.send_email", "12"]]
