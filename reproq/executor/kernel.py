"""The few Linux calls that the standard library doesn't wrap: prctl, and a timer that kills us though we are stopped.

A POSIX timer whose signal is SIGKILL needs nothing of ours to run: the kernel fires it while the process is stopped or
its interpreter hangs. CLOCK_BOOTTIME counts the time a machine is suspended, as a lease does.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

_CLONE_NEWNET = 0x40000000
_SIGEV_SIGNAL = 0
_TIMER_ABSTIME = 1
_SECOND = 1_000_000_000


class _SigEvent(ctypes.Structure):
    _fields_ = [
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("pad", ctypes.c_byte * 64),
    ]


class _TimeSpec(ctypes.Structure):
    _fields_ = [("sec", ctypes.c_long), ("nsec", ctypes.c_long)]


class _TimerSpec(ctypes.Structure):
    _fields_ = [("interval", _TimeSpec), ("value", _TimeSpec)]


_libc = ctypes.CDLL(None, use_errno=True)


def _timer_library() -> ctypes.CDLL:
    """glibc before 2.34 keeps the timers in librt."""
    return _libc if hasattr(_libc, "timer_create") else ctypes.CDLL("librt.so.1", use_errno=True)


def prctl(option: int, value: int | bytes) -> None:
    argument = ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value)
    zero = ctypes.c_ulong(0)
    if _libc.prctl(option, argument, zero, zero, zero) != 0:
        _raise(f"prctl({option})")


def leave_network() -> None:
    """A network of its own from here on, with nothing in it but a loopback that is down. Needs root."""
    if _libc.unshare(ctypes.c_int(_CLONE_NEWNET)) != 0:
        _raise("unshare(CLONE_NEWNET)")


def boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class SuicideTimer:
    """Kills this very process at a moment of CLOCK_BOOTTIME. A fork doesn't inherit it."""

    def __init__(self) -> None:
        self._library = _timer_library()
        self._timer = ctypes.c_void_p()
        event = _SigEvent(signo=signal.SIGKILL, notify=_SIGEV_SIGNAL)
        clock = ctypes.c_int(time.CLOCK_BOOTTIME)
        if self._library.timer_create(clock, ctypes.byref(event), ctypes.byref(self._timer)) != 0:
            _raise("timer_create(CLOCK_BOOTTIME)")
        self._armed: int | None = None

    def arm(self, at_ns: int | None) -> None:
        if at_ns == self._armed:
            return
        spec = _TimerSpec()
        if at_ns is not None:  # all zero would disarm, a past moment fires at once
            spec.value.sec, spec.value.nsec = divmod(max(at_ns, 1), _SECOND)
        if self._library.timer_settime(self._timer, _TIMER_ABSTIME, ctypes.byref(spec), None) != 0:
            _raise("timer_settime")
        self._armed = at_ns


def _raise(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")
