"""Our requests against the APIs' descriptions, with Prism as the judge: it refuses what a description doesn't allow.

The descriptions beside this file are short ones of our own. REPROQ_TEST_API_DESCRIPTIONS may name a folder with the
published ones, resend-openapi.yaml and twilio-api-v2010-openapi.yaml: then those judge as well.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reproq.channels import SendFailed, providers
from reproq.channels.endpoint import Endpoint

VERSION = "5.14.2"
HERE = Path(__file__).parent
PUBLISHED = os.environ.get("REPROQ_TEST_API_DESCRIPTIONS")
SID = "AC" + "5e" * 16
EMAIL = {
    "to": "Ann <ann@example.org>", "from": "Shop <shop@example.org>", "reply_to": "help@example.org",
    "subject": "Grüße", "html": "<p>Hi.</p>", "text": "Hi.", "headers": {"X-Order": "7"},
}  # fmt: skip
SMS = {"to": "+15551234567", "from": "+15550006789", "body": "Hi ✓ & more"}
Start = Callable[[Path], str]


@pytest.fixture(scope="module")
def prism() -> list[str]:
    """The program: the machine's own, or fetched once by npm into a folder of temporary files."""
    if found := shutil.which("prism"):
        return [found]
    if shutil.which("npm") is None:
        pytest.skip("no prism and no npm here: the published descriptions judge nothing, the fakes carry on alone")
    home = Path(tempfile.gettempdir()) / f"reproq-prism-{VERSION}-{os.getuid()}"
    program = home / "node_modules/.bin/prism"
    if not program.exists():
        _fetch(home)
    return [str(program)]


def _fetch(home: Path) -> None:
    with tempfile.TemporaryDirectory(dir=home.parent) as scratch:
        command = ["npm", "install", "--loglevel=error", "--no-audit", "--no-fund", "--prefix", scratch]
        try:
            done = subprocess.run(
                [*command, f"@stoplight/prism-cli@{VERSION}"], capture_output=True, text=True, timeout=90, check=False
            )
        except subprocess.TimeoutExpired:
            pytest.skip("npm didn't bring prism within 90 s")
        if done.returncode:
            pytest.skip(f"npm can't bring prism: {done.stderr.strip()[-200:]}")
        try:
            Path(scratch).rename(home)
        except OSError:
            return  # another run was quicker
        Path(scratch).mkdir()  # for its own removal


@pytest.fixture(scope="module")
def start(prism: list[str]) -> Iterator[Start]:
    servers: list[subprocess.Popen[str]] = []

    def start(description: Path) -> str:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [*prism, "mock", "--host", "127.0.0.1", "--port", str(port), str(description)]
        servers.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
            )
        )
        output = servers[-1].stdout
        assert output is not None
        said = ""
        for line in output:
            said += line
            if "listening" in line:
                return f"http://127.0.0.1:{port}"
        raise AssertionError(said)

    yield start
    for server in servers:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        assert server.stdout is not None
        server.stdout.close()


def descriptions(own: str, published: str) -> list[Path]:
    return [HERE / own, *([Path(PUBLISHED) / published] if PUBLISHED else [])]


@pytest.mark.parametrize("description", descriptions("resend.yaml", "resend-openapi.yaml"), ids=lambda path: path.name)
def test_what_we_send_to_resend_is_what_its_description_allows(start: Start, description: Path) -> None:
    url = start(description)
    given = {"email_provider": "resend", "resend_api_key": "re_1", "resend_api_url": url}
    with closing(providers(given)["email"]) as provider:
        assert provider.send(EMAIL, "k", 30)["provider_message_id"]
        assert provider.send({"to": "ann@example.org", "from": "a@example.org", "text": "x"}, "k" * 300, 30)
    assert refusal(url, "/emails", b'{"to": 7}', "application/json") == 422  # the judge is awake


@pytest.mark.parametrize(
    "description", descriptions("twilio.yaml", "twilio-api-v2010-openapi.yaml"), ids=lambda path: path.name
)
def test_what_we_send_to_twilio_is_what_its_description_allows(start: Start, description: Path) -> None:
    url = start(description)
    given = {"sms_provider": "twilio", "twilio_account_sid": SID, "twilio_auth_token": "t", "twilio_api_url": url}
    with closing(providers(given)["sms"]) as provider:
        assert provider.send(SMS, "k", 30)["provider_message_id"].startswith("SM")
        assert provider.send(SMS | {"from": "MG" + "0b" * 16}, "k", 30)
        assert provider.find(SMS, time.time(), 30) is None
    path = f"/2010-04-01/Accounts/{SID}/Messages.json"
    assert refusal(url, path, b"Body=x", "application/x-www-form-urlencoded") in (400, 422)


def refusal(url: str, path: str, body: bytes, kind: str) -> int:
    endpoint = Endpoint(url, {"Authorization": "Bearer re_1" if kind.endswith("json") else "Basic eDp5"}, ())
    with closing(endpoint):
        try:
            return endpoint.post(path, 30, body, {"Content-Type": kind}).status
        except SendFailed as failed:
            pytest.fail(failed.message)
