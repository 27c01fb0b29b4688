"""What a service manager hears of us (systemd's sd_notify). Where there is none, nothing happens."""

import os
import socket


def notify(state: str) -> None:
    """`READY=1`, `STATUS=…`, `WATCHDOG=1`, several by newlines. Never waits and never raises: a message that finds the
    manager's socket full is lost, so whoever calls says again what matters."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # an abstract one
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock:
            sock.sendto(state.encode(), address)
    except OSError:
        pass


def watchdog_s() -> float | None:
    """How often the manager wants to hear `WATCHDOG=1`; None: it has no watchdog, or it is another process's."""
    pid, microseconds = os.environ.get("WATCHDOG_PID", ""), os.environ.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or pid not in ("", str(os.getpid())):
        return None
    return int(microseconds) / 1e6 or None
