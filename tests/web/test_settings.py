"""What `reproq serve` and `reproq tokens` refuse, each with one line and status 2."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from reproq.config import SettingsError, load_gateway
from tests.cli.conftest import Call, call
from tests.conftest import Database
from tests.web.conftest import Gateway
from tests.worker.harness import ROOT

__all__ = ["call"]  # a fixture


def refused(call: Call, *arguments: str, role: str = "app") -> str:
    status, out, err = call(*arguments, role=role)
    assert (status, out, err.count("\n")) == (2, "", 1), err
    return err


@pytest.mark.parametrize("address", ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:8080", "shop.example:8080"])
def test_beyond_this_host_tls_is_needed_or_a_word(address: str) -> None:
    with pytest.raises(SettingsError, match="--insecure-plain-http"):
        load_gateway({"listen": address}, {})
    assert load_gateway({"listen": address, "insecure_plain_http": True}, {}).listen[1] == 8080


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:1", "[::1]:8080", "127.0.0.9:1", ":8080", "8080"])
def test_on_this_host_plain_http_is_allowed(address: str) -> None:
    load_gateway({"listen": address}, {})


@pytest.mark.parametrize(
    ("environ", "word"),
    [
        ({"REPROQ_SERVE_LISTEN": "x"}, "write 127.0.0.1"),
        ({"REPROQ_SERVE_LISTEN": "127.0.0.1:99999"}, "write 127.0.0.1"),
        ({"REPROQ_SERVE_TLS_CERT": "/nowhere.pem"}, "can't read /nowhere.pem"),
        ({"REPROQ_SERVE_MAX_WAITERS": "0"}, "whole number"),
        ({"REPROQ_CORS_ORIGINS": "*"}, "name them"),
        ({"REPROQ_CORS_ORIGINS": "https://shop.example/path"}, "without a path"),
        ({"REPROQ_TICKET_KEY": "short"}, "32 ASCII characters"),
        ({"REPROQ_TICKET_KEY": "a" * 32 + ",b"}, "32 ASCII characters"),
    ],
)
def test_a_senseless_setting_is_one_line(environ: dict[str, str], word: str) -> None:
    with pytest.raises(SettingsError, match=word) as caught:
        load_gateway({}, environ)
    assert "short" not in str(caught.value)


def test_settings_may_stand_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "reproq.toml"
    file.write_text('[serve]\nlisten = "127.0.0.1:9000"\ncors_origins = ["https://a.example"]\nmax_waiters = 7\n')
    found = load_gateway({}, {"REPROQ_SERVE_MAX_WAITERS": "8"}, file)
    assert (found.listen, found.cors_origins, found.max_waiters) == (("127.0.0.1", 9000), ("https://a.example",), 8)
    file.write_text("[serve]\nlisen = 1\n")
    with pytest.raises(SettingsError, match="did you mean listen"):
        load_gateway({}, {}, file)


def test_what_can_not_be_served_is_one_line(call: Call, tmp_path: Path, database: Database) -> None:
    (tmp_path / "x.pem").write_text("not a certificate")
    assert "don't fit" in refused(call, "serve", "--tls-cert", "x.pem", "--listen", "0")
    assert "both" in refused(call, "serve", "--tls-key", "x.pem")
    assert "can't listen on 192.0.2.1:1" in refused(call, "serve", "--listen", "192.0.2.1:1", "--insecure-plain-http")
    assert "unknown environment" not in refused(call, "serve", "--listen", "x")
    database.execute("revoke reproq_app from reproq_app_login")
    try:
        assert "GRANT reproq_app TO it" in refused(call, "serve", "--listen", "0")
    finally:
        database.execute("grant reproq_app to reproq_app_login")


def test_a_missing_extra_is_one_line_with_the_command(tmp_path: Path) -> None:
    (tmp_path / "block.py").write_text(
        "import sys\nsys.modules['uvicorn'] = None\nsys.argv = ['reproq', 'serve']\n"
        "from reproq.cli import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "block.py"], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'reproq[serve]'" in done.stderr


def test_tokens_are_made_listed_and_revoked(call: Call) -> None:
    made = call(
        "tokens", "create", "shop", "--scope", "tasks:read", "--type-prefix", "shop.", "--expires", "90d", role="admin"
    )
    assert (made[0], made[1].startswith("rq_"), len(made[1])) == (0, True, 47)
    status, out, _ = call("tokens", "list", "--json", role="admin")
    assert (status, '"prefixes": ["shop."]' in out, made[1].strip() in out) == (0, True, False)
    assert "already" in refused(call, "tokens", "create", "shop", "--scope", "tasks:read", role="admin")
    assert call("tokens", "revoke", "shop", role="admin")[:2] == (0, "revoked\n")
    assert call("tokens", "revoke", "shop", role="admin")[:2] == (1, "unknown\n")
    assert call("tokens", "create", "shop", "--scope", "tasks:read", role="admin")[0] == 0
    for wrong in (
        ["a b"],
        ["x", "--queue", ""],
        ["x", "--expires", "soon"],
        ["x", "--expires", "99999d"],
        ["x", "--scope", "all"],
    ):
        refused(call, "tokens", "create", *wrong, "--scope", "tasks:read", role="admin")
    assert "owner" in refused(call, "tokens", "list")


def test_it_tells_the_service_manager(gateway: Gateway, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        environ = {
            **os.environ,
            "REPROQ_DATABASE_URL": gateway.database.app_dsn,
            "NOTIFY_SOCKET": str(tmp_path / "notify"),
        }
        other = subprocess.Popen(
            [sys.executable, "-m", "reproq", "serve", "--listen", "127.0.0.1:0"], cwd=ROOT, env=environ,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert manager.recv(100) == b"READY=1"
        other.terminate()
        assert manager.recv(100) == b"STOPPING=1"
        assert other.wait(30) == 0
