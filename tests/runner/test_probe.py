"""The worker's small HTTP server against clients of every kind."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from reproq.metrics import gauge
from reproq.runner import probe as probes
from reproq.runner.health import Health
from reproq.runner.probe import Probe


@pytest.fixture
def probe() -> Iterator[Probe]:
    server = Probe(("127.0.0.1", 0), Health(30.0), lambda: [gauge("some_metric", "Help.", [({}, 1)])])
    server.start()
    yield server
    server.close()


def dial(probe: Probe) -> socket.socket:
    host, _, port = probe.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def ask(probe: Probe, request: bytes) -> bytes:
    """Everything until it hangs up."""
    with dial(probe) as line:
        line.sendall(request)
        answer = b""
        while data := line.recv(65536):
            answer += data
        return answer


def test_a_head_request_gets_no_body(probe: Probe) -> None:
    answer = ask(probe, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 0" not in answer


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"200"),
        (b"GET /livez?verbose HTTP/1.0\r\n\r\n", b"200"),
        (b"GET /readyz HTTP/1.1\r\n\r\n", b"503"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /metrics HTTP/2\r\n\r\n", b"400"),
        (b"\xff\x00\r\n\r\n", b"400"),
        (b"\r\n\r\n", b"400"),
    ],
)
def test_whatever_is_asked_gets_a_status(probe: Probe, request_: bytes, status: bytes) -> None:
    assert ask(probe, request_).split(b" ")[1] == status


def test_a_request_without_end_is_cut_off_and_others_are_served(probe: Probe) -> None:
    with pytest.raises(ConnectionError):
        assert ask(probe, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000) == b""
        raise ConnectionResetError  # hung up on in order, which is as good
    assert ask(probe, b"GET /livez HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_who_sends_nothing_keeps_nobody_waiting_and_is_cut_off(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_PATIENCE_S", 0.3)
    silent = [dial(probe) for _ in range(10)]
    assert ask(probe, b"GET /livez HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200")
    for line in silent:
        assert line.recv(100) == b""
        line.close()


def test_one_connection_too_many_is_hung_up_on(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_MOST_AT_ONCE", 1)
    with dial(probe) as first:
        first.sendall(b"GET /livez HTTP/1.1\r\n")
        with dial(probe) as second:
            assert second.recv(100) == b""
        first.sendall(b"\r\n")
        assert first.recv(100).startswith(b"HTTP/1.1 200")
