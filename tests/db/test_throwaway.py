"""A throw-away server: gone with its starter, however that ended."""

import os
import signal
import tempfile
from pathlib import Path
from types import FrameType

import pytest

from reproq.db import embedded
from reproq.db.embedded import sweep

from .aids import Start, alive, ask, line, until

THROWAWAY = """
import sys; from reproq.db.embedded import throwaway
with throwaway() as server:
    print(server.pid, server.folder, server._process.pid, flush=True); sys.stdin.read(1)"""


def test_a_throw_away_server_leaves_nothing_behind() -> None:
    with embedded.throwaway() as server:
        assert ask(server, "select 1") == 1
    assert not alive(server.pid)
    assert not server.folder.exists()


def test_a_throw_away_server_dies_with_a_starter_that_is_killed_and_so_does_its_folder(start: Start) -> None:
    process = start(THROWAWAY)
    pid, folder, _ = line(process)
    process.kill()
    until(lambda: not alive(int(pid)) and not Path(folder).exists())


def test_a_throw_away_server_whose_keeper_was_killed_too_is_swept_away_by_the_next(start: Start) -> None:
    process = start(THROWAWAY)
    pid, folder, keeper = line(process)
    os.kill(process.pid, signal.SIGSTOP)  # so that it can't see its keeper die
    os.kill(int(keeper), signal.SIGKILL)
    process.kill()
    process.wait()
    assert alive(int(pid))

    def swept() -> bool:
        sweep()
        return not Path(folder).exists()

    until(swept)
    assert not alive(int(pid))


def test_sweeping_leaves_a_living_throw_away_server_alone() -> None:
    with embedded.throwaway() as server:
        sweep()
        assert ask(server, "select 1") == 1


def test_a_throw_away_server_lives_and_is_swept_in_the_folder_that_it_is_given(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    left = tmp_path / "reproq-throwaway-left"
    left.mkdir()
    with embedded.throwaway(parent=tmp_path) as server:
        assert server.folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_stop_waits_until_the_temporary_folder_has_been_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def try_folder() -> str:
        probe = tmp_path / "probe"  # as tempfile does, without a try around the first two lines
        probe.touch()
        signal.raise_signal(number)
        probe.unlink()
        return str(tmp_path)

    monkeypatch.setattr(tempfile, "gettempdir", try_folder)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        before = signal.signal(number, stop)
        try:
            with pytest.raises(KeyboardInterrupt), embedded.throwaway():
                pass
        finally:
            signal.signal(number, before)
    assert list(tmp_path.iterdir()) == []
