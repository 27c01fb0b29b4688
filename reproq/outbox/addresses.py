"""Where a dispatcher may connect to.

Whoever may add a sink names a host; the name may lead to a machine behind the dispatcher's firewall, now or at the next
look. So a name is resolved once for a connection, every address that comes is judged, and the connection is made to an
address that was judged, never to the name.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

from reproq.channels.line import left

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Found = list[tuple[Any, Any, int, str, Any]]  # as getaddrinfo answers
Resolve = Callable[[str, int], Found]

# An IPv4 address in other clothes; a gateway would undress it.
_NAT64 = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_RELAYS = IPv4Network("192.88.99.0/24")


class Refused(OSError):
    """The host leads to where a dispatcher may not go."""


def is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and address not in _RELAYS
    inner = _embedded(address)
    if inner is not None:
        return is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_site_local


def _embedded(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour
    if address.teredo:
        return address.teredo[1]
    compatible = int(address) >> 32 == 0 and int(address) > 1
    if compatible or any(address in network for network in _NAT64):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


class Gate:
    """Lets public addresses through, and those of the networks that were named at start for sinks that may use them."""

    def __init__(self, private: Sequence[Network] = (), resolve: Resolve | None = None) -> None:
        self._private = tuple(private)
        self._resolve = resolve or _ask_system

    def addresses(self, host: str, port: int, *, allow_private: bool, ends: float) -> Found:
        """All of a host's addresses, or Refused if one of them is out of bounds."""
        found = self._looked_up(host, port, ends)
        for entry in found:
            address = ip_address(str(entry[4][0]).partition("%")[0])
            if not self._admits(address, allow_private):
                raise Refused(_reason(address, allow_private))
        if not found:
            raise OSError("its name has no address")
        return found

    def _admits(self, address: Address, allow_private: bool) -> bool:
        if is_public(address):
            return True
        bare = (_embedded(address) if isinstance(address, IPv6Address) else None) or address
        return allow_private and any(bare.version == net.version and bare in net for net in self._private)

    def _looked_up(self, host: str, port: int, ends: float) -> Found:
        """On a thread of its own: a resolver that hangs has time-outs of its own, longer than ours."""
        answer: list[Found | OSError] = []

        def look() -> None:
            try:
                answer.append(self._resolve(host, port))
            except (OSError, UnicodeError) as problem:
                answer.append(OSError(f"its name can't be resolved: {problem}"))

        thread = threading.Thread(target=look, name="resolve", daemon=True)
        thread.start()
        thread.join(left(ends))
        if not answer:
            raise TimeoutError("its name wasn't resolved in time")
        if isinstance(answer[0], OSError):
            raise answer[0]
        return answer[0]


def _ask_system(host: str, port: int) -> Found:
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


def _reason(address: Address, allow_private: bool) -> str:
    how = (
        "start the dispatcher with --allow-private and its network"
        if allow_private
        else "let the sink use private addresses and name their network to the dispatcher"
    )
    return f"refused: {address} isn't a public address; if that is meant, {how}"
