"""How the guard ends children and whatever they started."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.executor.driver import GuardDriver, alive, processes_with, wait_dead, wait_for

# Prints the pids of a grandchild, of one in its own session, of one that was reparented, and of one that also dropped
# its environment; then waits.
FAMILY = """
import os, sys, time
def note():
    os.write(1, f"{os.getpid()}\\n".encode())
def keep(steps, clean=False):
    if os.fork():
        return
    for step in steps:
        if step == "session":
            os.setsid()
        elif os.fork():
            os._exit(0)
    if clean:
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c",
                  "import os, time; os.write(1, b'%d\\\\n' % os.getpid()); time.sleep(600)"], {})
    note()
    time.sleep(600)
    os._exit(0)
keep([])
keep(["session"])
keep(["session", "fork"])
keep(["fork", "session", "fork"], clean=True)
"""
COMET = """
import os, time
os.setsid() if os.getpid() != os.getsid(0) else None
os.write(1, b"up\\n")
while True:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.001)
"""
BOMB = """
import os, time
os.write(1, b"up\\n")
for _ in range(7):
    if os.fork() == 0:
        os.setsid()
time.sleep(600)
"""


def family(guard: GuardDriver, key: str, then: str = "time.sleep(600)") -> list[int]:
    child = guard.python(key, FAMILY + then)
    pids = [int(child.out.line()) for _ in range(4)]
    os.write(child.stdin, b"all are there\n")
    return pids


def test_an_exit_is_told_with_its_status_and_what_it_cost(guard: GuardDriver) -> None:
    guard.python("a", "sum(range(3_000_000)); raise SystemExit(7)")
    told = guard.wait("exited", "a")
    assert (told["exit_code"], told["signal"], told["by"]) == (7, None, None)
    assert told["cpu_s"] > 0.01
    assert 5_000 < told["max_rss_kb"] < 100_000


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT])
def test_a_child_that_dies_is_told_with_its_signal(guard: GuardDriver, number: signal.Signals) -> None:
    guard.shell("a", f"kill -{int(number)} $$")
    told = guard.wait("exited", "a")
    assert (told["exit_code"], told["signal"], told["by"]) == (None, number, None)


def test_term_reaches_the_whole_group_and_leaves_the_child_its_last_words(guard: GuardDriver) -> None:
    child = guard.shell("a", "trap 'echo bye; exit 5' TERM; sleep 60 & echo $!; wait")
    sleeper = int(child.out.line())
    guard.guard.kill("a", signal.SIGTERM)
    assert child.out.line() == b"bye"
    told = guard.wait("exited", "a")
    assert (told["exit_code"], told["by"]) == (5, "kill")
    assert not alive(sleeper)


def test_kill_ends_every_descendant_whatever_it_did_before_the_exit_is_told(guard: GuardDriver) -> None:
    pids = family(guard, "a")
    guard.guard.kill("a", signal.SIGKILL)
    told = guard.wait("exited", "a")
    assert (told["signal"], told["by"]) == (signal.SIGKILL, "kill")
    assert [alive(pid) for pid in pids] == [False] * 4


def test_kill_spares_the_descendants_of_other_children(guard: GuardDriver) -> None:
    kept = family(guard, "kept")
    family(guard, "killed")
    guard.guard.kill("killed", signal.SIGKILL)
    guard.wait("exited", "killed")
    assert all(alive(pid) for pid in kept)


def test_a_stopped_child_is_killed_all_the_same(guard: GuardDriver) -> None:
    child = guard.shell("a", "echo up; kill -STOP $$")
    child.out.line()
    guard.guard.kill("a", signal.SIGKILL)
    assert guard.wait("exited", "a")["signal"] == signal.SIGKILL


def test_what_a_child_leaves_behind_dies_before_its_exit_is_told(guard: GuardDriver) -> None:
    pids = family(guard, "a", "os.read(0, 1)")
    assert guard.wait("exited", "a")["exit_code"] == 0
    assert [alive(pid) for pid in pids] == [False] * 4


def test_leftovers_live_as_long_as_their_child(guard: GuardDriver) -> None:
    pids = family(guard, "a")
    guard.shell("b", "exit 0")
    guard.wait("exited", "b")
    assert all(alive(pid) for pid in pids)


def test_a_leftover_that_holds_every_pipe_doesnt_delay_the_exit(guard: GuardDriver) -> None:
    guard.shell("a", "setsid sleep 600 & exit 3")
    assert guard.wait("exited", "a", seconds=5)["exit_code"] == 3


def test_sweep_kills_the_descendants_and_spares_the_child_and_all_others(guard: GuardDriver) -> None:
    others = family(guard, "b")
    pids = family(guard, "a")
    child = guard.wait("started", "a")["pid"]
    guard.guard.sweep("a")
    assert guard.wait("swept", "a")["killed"] == 4
    assert [alive(pid) for pid in pids] == [False] * 4
    assert all(map(alive, [child, *others]))


def test_sweep_without_anything_to_sweep_answers_at_once(guard: GuardDriver) -> None:
    guard.start("a", "sleep", "60")
    guard.guard.sweep("a")
    guard.guard.sweep("nobody")
    assert guard.wait("swept", "a", seconds=5)["killed"] == 0
    assert guard.wait("swept", "nobody", seconds=5)["killed"] == 0


def test_sweep_answers_even_if_the_child_ends_meanwhile(guard: GuardDriver) -> None:
    for _ in range(30):
        guard.start("a", "true")
        guard.guard.sweep("a")
        guard.wait("swept", "a", seconds=5)
        guard.wait("exited", "a", seconds=5)


@pytest.mark.parametrize("script", [COMET, BOMB], ids=["a process that flees by forking", "128 sessions"])
def test_a_fork_bomb_ends_with_the_kill(guard: GuardDriver, script: str) -> None:
    mark = f"bomb-{os.getpid()}-{time.monotonic_ns()}"
    child = guard.python("a", f"import sys; sys.argv = ['{mark}']\n{script}")
    child.out.line()
    if script is BOMB:
        wait_for(lambda: len(processes_with(mark)) == 128, "the bomb to go off")
        guard.guard.kill("a", signal.SIGKILL)
    guard.wait("exited", "a")
    assert processes_with(mark) == []


def test_a_fork_bomb_in_one_group_ends_with_the_kill(guard: GuardDriver) -> None:
    mark = f"bomb-{os.getpid()}-{time.monotonic_ns()}"
    child = guard.python(
        "a", f"'{mark}'\nimport os\nos.write(1, b'up')\nwhile len(os.listdir('/proc')) < 600: os.fork()"
    )
    child.out.until(b"up")
    guard.guard.kill("a", signal.SIGKILL)
    guard.wait("exited", "a")
    assert processes_with(mark) == []


def test_the_guard_answers_while_it_kills_a_crowd(guard: GuardDriver) -> None:
    child = guard.python("crowd", BOMB + "\n")
    child.out.line()
    guard.guard.kill("crowd", signal.SIGKILL)
    began = time.monotonic()
    guard.shell("a", "exit 0")
    guard.wait("exited", "a")
    assert time.monotonic() - began < 1.0
    guard.wait("exited", "crowd")


def test_a_kill_of_an_unknown_or_ended_child_harms_nobody(guard: GuardDriver) -> None:
    guard.guard.kill("nobody", signal.SIGKILL)
    guard.start("a", "true")
    guard.wait("exited", "a")
    guard.guard.kill("a", signal.SIGKILL)
    guard.start("a", "true")
    assert guard.wait("exited", "a")["by"] is None


def test_stop_ends_everything_and_the_guard_with_status_0(guard: GuardDriver) -> None:
    pids = family(guard, "a") + family(guard, "b")
    assert guard.guard.stop() == 0
    assert [alive(pid) for pid in pids] == [False] * 8


def test_adopted_orphans_are_reaped_while_their_child_lives(guard: GuardDriver) -> None:
    child = guard.shell("a", "for i in 1 2 3 4 5 6 7 8; do (true & ) ; done; echo done; sleep 60")
    child.out.line()
    own = guard.wait("started", "a")["pid"]
    path = f"/proc/{guard.guard.pid}/task/{guard.guard.pid}/children"

    def children() -> str:
        with open(path) as file:
            return file.read().strip()

    wait_for(lambda: children() == str(own), "the guard to have reaped all orphans")
    wait_dead()
