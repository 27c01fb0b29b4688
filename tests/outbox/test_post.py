"""One request: its end in time whatever the other side does, its certificate, its connection."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest
import trustme

from reproq.config import SettingsError
from reproq.outbox.addresses import Gate
from reproq.outbox.post import Place, Post, Unreachable, tls_context
from tests.outbox.receiver import Answer, Receiver, Rule

Make = Callable[..., Receiver]
PostTo = Callable[..., Post]
Authority = tuple[trustme.CA, Path]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Receiver] = []

    def make(rule: Rule | None = None, context: ssl.SSLContext | None = None) -> Receiver:
        made.append(Receiver(rule, context))
        return made[-1]

    yield make
    for receiver in made:
        receiver.close()


@pytest.fixture
def post_to() -> Iterator[Callable[..., Post]]:
    made: list[Post] = []

    def make(url: str, context: ssl.SSLContext | None = None) -> Post:
        gate = Gate([ip_network("127.0.0.0/8"), ip_network("::1/128")])
        made.append(Post(Place.of(url), gate, context or ssl.create_default_context(), allow_private=True))
        return made[-1]

    yield make
    for post in made:
        post.close()


def test_a_sink_that_says_nothing_is_not_waited_for(post_to: PostTo, make: Make) -> None:
    go = threading.Event()
    receiver = make(lambda _request: Answer(wait=go))
    began = time.monotonic()
    with pytest.raises(Unreachable, match="timed out"):
        post_to(receiver.url()).send(b"{}", {}, 0.3)
    go.set()
    assert time.monotonic() - began < 5


def test_a_sink_that_speaks_an_octet_at_a_time_is_not_waited_for(post_to: PostTo) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stop = threading.Event()

        def drip() -> None:
            peer, _ = server.accept()
            with peer:
                for octet in b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 1000:
                    if stop.wait(0.05):
                        return
                    peer.sendall(bytes([octet]))

        thread = threading.Thread(target=drip)
        thread.start()
        with pytest.raises(Unreachable, match="timed out"):
            post_to(f"http://127.0.0.1:{server.getsockname()[1]}/").send(b"{}", {}, 0.5)
        stop.set()
        thread.join()


def test_an_answer_without_an_end_is_read_as_far_as_it_counts(post_to: PostTo, make: Make) -> None:
    receiver = make(lambda _request: Answer(200, {"Content-Length": str(2**30)}, endless=True))
    post = post_to(receiver.url())
    began = time.monotonic()
    assert [post.send(b"{}", {}, 20).status for _ in range(2)] == [200, 200]
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "said",
    [
        b"", b"nonsense\r\n\r\n", b"\0\xff \x1b[2J\r\n\r\n", b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 999,
    ],
)  # fmt: skip
def test_what_is_no_answer_is_a_failure_in_one_line(post_to: PostTo, said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(said)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(Unreachable) as failed:
            post_to(f"http://127.0.0.1:{server.getsockname()[1]}/secret-path").send(b"{}", {}, 5)
        thread.join()
    assert str(failed.value).isprintable() and "secret-path" not in str(failed.value)


def test_a_connection_is_kept_and_one_that_was_closed_is_made_anew(post_to: PostTo, make: Make) -> None:
    receiver = make()
    post = post_to(receiver.url())
    for _ in range(3):
        assert post.send(b"{}", {}, 5).status == 200
    assert len(receiver.peers()) == 1
    receiver.rule = lambda _request: Answer(200, drop=len(receiver.requests) == 4)
    assert post.send(b"{}", {}, 5).status == 200
    assert len(receiver.requests) == 5 and len(receiver.peers()) == 2


def test_no_proxy_of_the_environment_is_asked(post_to: PostTo, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver, proxy = make(), make()
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url(""))
    assert post_to(receiver.url()).send(b"{}", {}, 5).status == 200
    assert proxy.requests == []


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return made, tmp_path / "ca.pem"


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


def test_a_certificate_must_be_trusted_and_of_this_host(
    post_to: PostTo, make: Make, authority: tuple[trustme.CA, Path]
) -> None:
    ours, file = authority
    right = make(context=server_context(ours, "localhost"))
    assert post_to(right.url(host="localhost"), tls_context(file)).send(b"{}", {}, 10).status == 200
    with pytest.raises(Unreachable, match="isn't trusted"):
        post_to(right.url(host="localhost")).send(b"{}", {}, 10)
    wrong = make(context=server_context(ours, "shop.example"))
    with pytest.raises(Unreachable, match="isn't trusted"):
        post_to(wrong.url(host="localhost"), tls_context(file)).send(b"{}", {}, 10)
    assert wrong.requests == []


def test_a_file_without_certificates_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no")
    with pytest.raises(SettingsError, match="no certificates"):
        tls_context(tmp_path / "ca.pem")


@pytest.mark.parametrize(
    "url",
    ["https:///x", "https://a:99999/", "https://münchen.example/", "https://u:p@a/", "file:///etc", "https://[::1/"],
)
def test_what_is_no_address_is_refused_without_it(url: str) -> None:
    with pytest.raises(Unreachable) as refused:
        Place.of(url)
    assert url not in str(refused.value)


def test_a_path_goes_out_as_octets_that_http_allows() -> None:
    assert Place.of("https://a.example/ü b?q=%20&x=y z").path == "/%C3%BC%20b?q=%20&x=y%20z"
    assert Place.of("https://a.example").path == "/"
