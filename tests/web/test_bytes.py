"""Whatever is sent to the port: a problem or a closed connection, never a stack trace, and the gateway lives on."""

from __future__ import annotations

import random
import socket
import ssl
import time

from tests.web.conftest import Gateway

GOOD = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
LINES = (
    b"\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET \xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/tasks/%ff%fe%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/tasks/1?wait=%ff&%00=%zz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n",
    b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\na\r\n0\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    GOOD * 50,
)


def said(gateway: Gateway, data: bytes, *, tls: bool = True) -> bytes:
    found = b""
    try:
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as plain:
            line = gateway.context.wrap_socket(plain, server_hostname="localhost") if tls else plain
            with line:
                line.sendall(data)
                if not tls:
                    line.shutdown(socket.SHUT_WR)
                line.settimeout(0.3)
                while piece := line.recv(65536):
                    found += piece
    except (TimeoutError, ssl.SSLError, ConnectionError, BrokenPipeError):
        pass
    return found


def test_what_is_not_http_gets_a_problem(gateway: Gateway) -> None:
    for line in LINES:
        answer = said(gateway, line)
        assert b"Traceback" not in answer
        assert b" 500 " not in answer.partition(b"\r\n")[0], line[:80]
        if answer and b"200 OK" not in answer.partition(b"\r\n")[0]:
            assert b"application/problem+json" in answer, line[:80]
    assert said(gateway, GOOD).startswith(b"HTTP/1.1 200 ")
    assert said(gateway, GOOD * 50).count(b"HTTP/1.1 200 ") == 50


def test_what_a_proxy_may_read_otherwise_is_refused_and_ends_the_connection(gateway: Gateway) -> None:
    head = b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    two_lengths = head + b"Content-Length: 3\r\n\r\n0\r\n\r\n"
    answer = said(gateway, two_lengths + GOOD)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1
    token = f"Content-Type: application/json\r\nAuthorization: Bearer {gateway.token}\r\n\r\n"
    answer = said(gateway, head + token.encode() + b"zz\r\n")
    assert answer.startswith(b"HTTP/1.1 400 Bad Request")
    assert b"urn:reproq:problem:not-http" in answer


def test_headers_that_come_in_one_piece_have_the_same_bound(gateway: Gateway) -> None:
    """The parser's bound holds only for what is incomplete."""
    fits = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n"
    assert said(gateway, fits % (b"a" * 30_000)).startswith(b"HTTP/1.1 200 ")
    assert said(gateway, fits % (b"a" * 33_000)).startswith(b"HTTP/1.1 431 ")


def test_random_bytes_never_end_it(gateway: Gateway) -> None:
    dice = random.Random(20)
    good = b"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{}"
    for number in range(60):
        data = bytearray(dice.choice((good, GOOD, dice.randbytes(200))))
        for _ in range(dice.randint(1, 8)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        answer = said(gateway, bytes(data), tls=number % 6 != 0)
        assert b"Traceback" not in answer
        assert b" 500 " not in answer.partition(b"\r\n")[0], bytes(data)
    assert said(gateway, GOOD).startswith(b"HTTP/1.1 200 ")
    assert gateway.process.poll() is None


def test_who_sends_byte_by_byte_is_let_go(gateway: Gateway) -> None:
    """Ten seconds for a request's headers, however they trickle; the handshake has as long."""
    with (
        socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as silent,
        socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as plain,
    ):
        slow = gateway.context.wrap_socket(plain, server_hostname="localhost")
        began = time.monotonic()
        slow.sendall(b"GET /livez HTTP/1.1\r\n")
        assert slow.recv(100) == b""
        assert 8 < time.monotonic() - began < 25
        assert silent.recv(100) == b""
        slow.close()


def test_a_body_that_never_ends_is_cut(gateway: Gateway) -> None:
    head = (
        f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
        f"Authorization: Bearer {gateway.token}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as plain:
        line = gateway.context.wrap_socket(plain, server_hostname="localhost")
        line.sendall(head.encode())
        sent = 0
        try:
            while sent < 50_000_000:
                line.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
                sent += 65536
        except (ssl.SSLError, ConnectionError):
            pass
        assert sent < 50_000_000
        line.close()
    assert gateway.database.execute("select count(*) from queues.task_runs") == [(0,)]
