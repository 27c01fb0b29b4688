"""Where a dispatcher won't connect to, whatever a name says now or later."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_address, ip_network

import pytest

from reproq.outbox.addresses import Found, Gate, Refused, is_public
from reproq.outbox.post import Place, Post, Unreachable
from tests.outbox.office import Office
from tests.outbox.receiver import Answer, Receiver

NOT_PUBLIC = re.findall(
    r"\S+",
    """
    127.0.0.1 127.8.9.10 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1
    100.127.255.255 192.0.0.1 192.0.2.1 192.88.99.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 224.0.1.1 239.1.2.3
    240.0.0.1 255.255.255.255 :: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1
    64:ff9b::a00:1 64:ff9b:1::a00:1 2002:7f00:1:: 2002:a00:1:: 2002:a9fe:a9fe:: 2001:0:1:2:3:4:f5ff:fffe fc00::1
    fd12:3456::1 fe80::1 fec0::1 ff02::1 ff0e::1 2001:db8::1 100::1
    """,
)
PUBLIC = re.findall(
    r"\S+",
    "1.1.1.1 8.8.8.8 93.184.216.34 172.32.0.1 100.128.0.1 2606:4700::1111 2a00:1450::1 ::ffff:8.8.8.8 64:ff9b::808:808",
)


@pytest.mark.parametrize("word", NOT_PUBLIC)
def test_an_address_that_is_not_public_is_told_as_such(word: str) -> None:
    assert not is_public(ip_address(word))


@pytest.mark.parametrize("word", PUBLIC)
def test_a_public_address_is_public(word: str) -> None:
    assert is_public(ip_address(word))


def answers(*addresses: str, port: int = 443) -> Found:
    kinds = {4: socket.AF_INET, 6: socket.AF_INET6}
    return [
        (kinds[ip_address(a).version], socket.SOCK_STREAM, 6, "", (a, port, 0, 0) if ":" in a else (a, port))
        for a in addresses
    ]


def pass_gate(gate: Gate, *, allow_private: bool = True) -> Found:
    return gate.addresses("name", 443, allow_private=allow_private, ends=time.monotonic() + 5)


def test_one_bad_address_among_good_ones_refuses_the_name() -> None:
    gate = Gate(resolve=lambda _host, _port: answers("93.184.216.34", "10.0.0.1"))
    with pytest.raises(Refused, match=r"10\.0\.0\.1 isn't a public address"):
        pass_gate(gate)


def test_a_private_address_needs_the_sink_and_the_dispatcher() -> None:
    gate = Gate(
        [ip_network("10.1.0.0/16"), ip_network("fd00::/8")], lambda _host, _port: answers("10.1.2.3", "fd00::1")
    )
    assert len(pass_gate(gate)) == 2
    with pytest.raises(Refused, match="let the sink use private addresses"):
        pass_gate(gate, allow_private=False)
    for address in ("10.2.0.1", "127.0.0.1", "::ffff:10.2.0.1"):
        other = Gate([ip_network("10.1.0.0/16")], lambda _host, _port: answers(address))  # noqa: B023
        with pytest.raises(Refused, match="--allow-private"):
            pass_gate(other)
    mapped = Gate([ip_network("10.1.0.0/16")], lambda _host, _port: answers("::ffff:10.1.2.3"))
    assert len(pass_gate(mapped)) == 1


def test_a_resolver_that_hangs_is_not_waited_for() -> None:
    never = threading.Event()

    def hang(_host: str, _port: int) -> Found:
        never.wait(30)
        return []

    with pytest.raises(TimeoutError):
        Gate(resolve=hang).addresses("name", 443, allow_private=False, ends=time.monotonic() + 0.05)
    never.set()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def test_a_name_that_changes_its_mind_is_judged_anew_and_only_what_was_judged_is_connected_to(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [answers("127.0.0.1", port=receiver.port), answers("169.254.169.254", port=receiver.port)]
    asked: list[str] = []

    def resolve(host: str, _port: int) -> Found:
        asked.append(host)
        return said[len(asked) - 1]

    def nobody_else_may_look(*_args: object, **_more: object) -> Found:
        raise AssertionError("the name was looked up a second time")

    monkeypatch.setattr(socket, "getaddrinfo", nobody_else_may_look)
    gate = Gate([ip_network("127.0.0.0/8")], resolve)
    place = Place.of(f"http://rebinding.example:{receiver.port}/")
    post = Post(place, gate, ssl.create_default_context(), allow_private=True)
    assert [post.send(b"{}", {}, 5).status for _ in range(3)] == [200] * 3
    assert asked == ["rebinding.example"]  # once for the connection that was kept
    assert receiver.requests[0].headers["host"] == f"rebinding.example:{receiver.port}"
    post.close()
    with pytest.raises(Unreachable, match=r"169\.254\.169\.254 isn't a public address"):
        post.send(b"{}", {}, 5)
    assert len(receiver.requests) == 3


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]"])
def test_no_spelling_of_this_machine_gets_through(host: str, receiver: Receiver) -> None:
    post = Post(Place.of(receiver.url(host=host)), Gate(), ssl.create_default_context(), allow_private=True)
    with pytest.raises(Unreachable):
        post.send(b"{}", {}, 5)
    assert receiver.requests == []


def test_a_dispatcher_reaches_its_own_network_only_if_it_is_told_to(office: Office) -> None:
    receiver = office.receiver()
    office.sink("shop", receiver.url())
    office.publish()
    dispatcher = office.dispatcher(REPROQ_DISPATCH_ALLOW_PRIVATE="10.0.0.0/8")
    refused = dispatcher.wait_event("delivery_failed", sink="shop")
    assert "refused: 127.0.0.1 isn't a public address" in refused["message"]
    assert dispatcher.stop() == 0
    assert receiver.requests == []
    office.sql("select queues.put_sink('shop', %s, allow_private => false)", f"https://127.0.0.1:{receiver.port}")
    other = office.dispatcher("--allow-private", "127.0.0.0/8")
    assert "let the sink use private" in other.wait_event("delivery_failed", sink="shop")["message"]
    assert other.stop() == 0
    assert receiver.requests == []


def test_a_redirect_is_a_failure_and_is_not_followed(office: Office) -> None:
    target = office.receiver()
    receiver = office.receiver(lambda _request: Answer(302, {"Location": target.url()}))
    office.sink("shop", receiver.url())
    office.publish()
    dispatcher = office.dispatcher()
    assert dispatcher.wait_event("delivery_failed")["status"] == 302
    assert dispatcher.stop() == 0
    assert target.requests == []
