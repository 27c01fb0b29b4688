"""Empties the buffers that a task's output may still sit in: Python's and C's."""

from __future__ import annotations

import ctypes
import sys

_BY_LINE = 1  # _IOLBF


class Output:
    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self._fflush = library.fflush
        self._fflush.argtypes = [ctypes.c_void_p]
        # Of one stream only: fflush(NULL) waits for ever if a thread sits in a read of another.
        self._stdout = ctypes.c_void_p.in_dll(library, "stdout").value
        # By line, as Python's: whole lines come out in the order in which they were printed.
        library.setvbuf(ctypes.c_void_p(self._stdout), None, _BY_LINE, ctypes.c_size_t(0))

    def flush(self) -> None:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (AttributeError, OSError, ValueError):
            pass  # the task closed or replaced them
        self._fflush(self._stdout)
