"""A task's output: what still sits in buffers, Python's and C's, and the descriptors that the next task prints to."""

from __future__ import annotations

import ctypes
import os
import sys

_BY_LINE = 1  # _IOLBF


class Output:
    def __init__(self, log: int) -> None:
        library = ctypes.CDLL(None)
        self._fflush = library.fflush
        self._fflush.argtypes = [ctypes.c_void_p]
        # Of one stream only: fflush(NULL) waits for ever if a thread sits in a read of another.
        self._stdout = ctypes.c_void_p.in_dll(library, "stdout").value
        # By line, as Python's: whole lines come out in the order in which they were printed.
        library.setvbuf(ctypes.c_void_p(self._stdout), None, _BY_LINE, ctypes.c_size_t(0))
        self._log = log
        self._file = os.fstat(log).st_ino
        self._streams = (sys.stdout, sys.stderr)

    def flush(self) -> None:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            self._fflush(self._stdout)
            if os.fstat(1).st_ino == os.fstat(2).st_ino == self._file and (sys.stdout, sys.stderr) == self._streams:
                return
        except Exception:  # noqa: BLE001, S110  (the task closed them, or replaced them by whatever it liked)
            pass
        self._mend()

    def _mend(self) -> None:
        """Else the next file that is opened would be number 1 or 2, and hold what the next tasks print."""
        for fd in (1, 2):
            os.dup2(self._log, fd)
        streams = [_usable(stream, fd) for fd, stream in enumerate(self._streams, 1)]
        sys.stdout, sys.stderr = streams
        self._streams = (sys.stdout, sys.stderr)


def _usable(stream: object, fd: int) -> object:
    if stream is None or getattr(stream, "closed", True):
        return open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    return stream
