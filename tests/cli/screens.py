"""A program before a terminal of ours: what it shows can be read, keys can be pressed, the window resized."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyte

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60


class Screen:
    """A program (`python -m reproq …`) in a window; as a context manager it leaves no process."""

    def __init__(
        self,
        *arguments: str,
        program: Sequence[str] = (sys.executable, "-m", "reproq"),
        columns: int = 80,
        lines: int = 24,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.master, child = pty.openpty()
        self._size(columns, lines)
        self.mode_before = termios.tcgetattr(child)
        self._child = child  # open, so that the mode that the program leaves behind can be read
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = bytearray()
        self.process = subprocess.Popen(
            [*program, *arguments],
            cwd=ROOT,
            env={**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **(environ or {})},
            stdin=child,
            stdout=child,
            stderr=child,
            start_new_session=True,
            preexec_fn=_own_terminal,  # noqa: PLW1509 - no other thread runs yet
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        os.close(self.master)
        os.close(self._child)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(lines, columns)
        self._size(columns, lines)

    def wait_for(self, condition: str | Callable[[str], bool]) -> str:
        """Read until the screen holds this text, or is as the condition wants it."""
        is_met = condition if callable(condition) else lambda text: condition in text
        until = time.monotonic() + PATIENCE_S
        while not is_met(self.text):
            assert time.monotonic() < until, self.text
            self._read(0.1)
        return self.text

    def end(self) -> int:
        """Read what is left, and answer the exit status."""
        until = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < until, self.text
            self._read(0.05)
        while self._read(0.0):
            pass
        return self.process.returncode

    def mode(self) -> list[Any]:
        """How the terminal is set now."""
        return termios.tcgetattr(self._child)

    def _read(self, patience: float) -> bool:
        if not select.select([self.master], [], [], patience)[0]:
            return False
        data = os.read(self.master, 65536)
        self.raw += data
        self._stream.feed(data)
        return bool(data)

    def _size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def _own_terminal() -> None:
    """Ctrl-C and a new size then come as signals."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
