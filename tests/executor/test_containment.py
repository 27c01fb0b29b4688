"""Finding and killing descendants, where the kernel lists children and where it doesn't."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from reproq.executor import containment
from tests.executor.driver import alive, wait_for

TREE = "import os, time\nos.fork() and os.fork()\nos.write(1, b'x')\ntime.sleep(600)"


@pytest.fixture(params=[True, False], ids=["children file", "scan of /proc"])
def tree(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    monkeypatch.setattr(containment, "_BY_THREAD", request.param)
    with subprocess.Popen([sys.executable, "-c", TREE], stdout=subprocess.PIPE) as process:
        assert process.stdout
        for _ in range(3):
            process.stdout.read(1)
        yield process
        containment.kill_tree_below(process.pid)
        process.kill()


def test_descendants_are_found(tree: subprocess.Popen[bytes]) -> None:
    found = containment.descendants_of(tree.pid, time.monotonic() + 5)
    assert len(found) == 2
    assert all(containment.parent_of(pid) == tree.pid for pid in found)


def test_a_tree_is_killed_but_for_its_root(tree: subprocess.Popen[bytes]) -> None:
    found = containment.kill_tree_below(tree.pid, seconds=5)
    assert len(found) == 2
    wait_for(lambda: not any(map(alive, found)), "the descendants to be dead")
    assert alive(tree.pid)
    assert containment.kill_tree_below(tree.pid, seconds=5) == []


def test_children_of_every_thread_are_found(tree: subprocess.Popen[bytes]) -> None:
    started: list[subprocess.Popen[bytes]] = []
    done = threading.Event()

    def work() -> None:
        started.append(subprocess.Popen(["sleep", "60"]))
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    wait_for(lambda: started, "the thread to have started a process")
    assert {tree.pid, started[0].pid} <= set(containment.children_of(os.getpid()))
    started[0].kill()
    started[0].wait()
    done.set()
    thread.join()


def test_a_number_that_belongs_to_a_stranger_is_not_killed(tree: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        assert containment.kill_descendant(stranger.pid, {tree.pid}) is False
        assert alive(stranger.pid)
        assert containment.kill_descendant(stranger.pid, {os.getpid()}) is True
        assert stranger.wait(10) == -9


def test_a_dead_process_has_no_parent_and_no_tag(tree: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen(["true"]) as gone:
        wait_for(lambda: not alive(gone.pid), "it to be a zombie")
        assert containment.parent_of(gone.pid) is None
        assert containment.tag_of(gone.pid) is None
    assert containment.parent_of(gone.pid) is None
    assert containment.descendants_of(gone.pid, time.monotonic() + 1) == []
