"""The guard when something is dead or frozen: the runner, the guard itself, the children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from reproq.executor.guard_client import GuardGone, GuardStuck
from tests.executor.driver import ENVIRONMENT, ROOT, GuardDriver, Reader, alive, wait_dead, wait_for

# A runner: one guard, one child with a grandchild in its own session. Prints guard's, child's, grandchild's pid.
RUNNER = """
import os, sys, time, select
from reproq.executor.guard_client import Guard
guard = Guard.start(dict(os.environ))
null = os.open("/dev/null", os.O_RDWR)
out, out_write = os.pipe()
guard.start_child("a", ["/bin/sh", "-c", "setsid sleep 600 & echo $$ $!; wait"], {}, [null, out_write, null])
at = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + int(float(sys.argv[1]) * 1e9)
if float(sys.argv[1]):
    guard.deadline(at, ack=True)
    events = []
    while not any(event["event"] == "armed" for event in events):
        select.select([guard], [], [])
        events += guard.receive()
print(at, guard.pid, os.read(out, 100).decode().strip(), flush=True)
while True:
    select.select([guard], [], [])
    for event in guard.receive():
        print(event["event"], event.get("by"), flush=True)
        if event["event"] == "gone":
            raise SystemExit
"""


class Runner:
    def __init__(self, deadline_s: float = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, str(deadline_s)], stdout=subprocess.PIPE, env=ENVIRONMENT, cwd=ROOT
        )
        assert self.process.stdout
        self.out = Reader(self.process.stdout.fileno())
        self.at, self.guard, self.child, self.grandchild = map(int, self.out.line().split())

    def close(self) -> None:
        for pid in (self.guard, self.grandchild):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()


@pytest.fixture
def runners() -> Iterator[list[Runner]]:
    made: list[Runner] = []
    yield made
    for runner in made:
        runner.close()


def in_seconds(seconds: float) -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) + int(seconds * 1e9)


def test_a_killed_runner_takes_guard_children_and_escaped_grandchildren_with_it(runners: list[Runner]) -> None:
    runners.append(runner := Runner())
    runner.process.kill()
    wait_dead(runner.child, runner.grandchild, runner.guard, seconds=5)


def test_a_runner_killed_while_the_guard_is_stopped_wakes_the_guard_which_ends_all(runners: list[Runner]) -> None:
    runners.append(runner := Runner())
    os.kill(runner.guard, signal.SIGSTOP)
    runner.process.kill()
    wait_dead(runner.child, runner.grandchild, runner.guard, seconds=5)


def test_a_frozen_runners_children_die_before_its_deadline_with_their_grandchildren(runners: list[Runner]) -> None:
    runners.append(runner := Runner(deadline_s=1.5))
    os.kill(runner.process.pid, signal.SIGSTOP)
    wait_dead(runner.child, runner.grandchild, seconds=5)
    assert in_seconds(0) < runner.at
    assert alive(runner.guard)
    os.kill(runner.process.pid, signal.SIGCONT)
    runner.out.until(b"exited deadline\n")


def test_a_frozen_guard_dies_at_the_deadline_and_its_children_with_it(runners: list[Runner]) -> None:
    runners.append(runner := Runner(deadline_s=1.5))
    for pid in (runner.process.pid, runner.guard, runner.child):
        os.kill(pid, signal.SIGSTOP)
    assert alive(runner.child)
    wait_dead(runner.guard, runner.child, seconds=5)
    os.kill(runner.process.pid, signal.SIGCONT)
    runner.out.until(b"gone")


def test_a_later_deadline_replaces_the_earlier_and_none_takes_it_away(guard: GuardDriver) -> None:
    guard.start("a", "sleep", "60")
    guard.wait("started", "a")
    guard.guard.deadline(in_seconds(1.0))
    assert guard.guard.deadline(in_seconds(60))
    guard.guard.deadline(in_seconds(0.8), {"a": in_seconds(60)})
    guard.guard.deadline(None, ack=True)
    assert guard.wait("armed")["at"] is None
    guard.shell("clock", "sleep 1.2")
    guard.wait("exited", "clock")
    assert guard.seen == [] or all(event["event"] in ("up", "started") for event in guard.seen)


def test_a_deadline_of_one_child_spares_the_others(guard: GuardDriver) -> None:
    guard.start("a", "sleep", "60")
    guard.start("b", "sleep", "60")
    guard.wait("started", "a")
    pid = guard.wait("started", "b")["pid"]
    guard.guard.deadline(in_seconds(60), {"a": in_seconds(0.7), "nobody": in_seconds(0.1)})
    assert guard.wait("exited", "a")["by"] == "deadline"
    assert alive(pid)
    guard.start("a", "sleep", "60")  # the new child under this key has the common deadline
    pid = guard.wait("started", "a")["pid"]
    guard.start("c", "true")
    guard.wait("exited", "c")
    assert alive(pid)


def test_a_deadline_that_is_already_over_kills_at_once_and_spares_the_guard(guard: GuardDriver) -> None:
    guard.start("a", "sleep", "60")
    guard.wait("started", "a")
    guard.guard.deadline(in_seconds(-5))
    guard.guard.deadline(in_seconds(-4))
    child_of_later = guard.wait("exited", "a")
    assert (child_of_later["by"], child_of_later["signal"]) == ("deadline", signal.SIGKILL)
    guard.start("b", "true")
    assert guard.wait("exited", "b")["exit_code"] == 0


def test_a_child_started_after_the_deadline_is_not_subject_to_it(guard: GuardDriver) -> None:
    guard.guard.deadline(in_seconds(-1), ack=True)
    guard.wait("armed")
    guard.start("a", "true")
    told = guard.wait("exited", "a")
    assert (told["exit_code"], told["by"]) == (0, None)


def test_the_guard_outlives_deadlines_of_children_that_it_killed(guard: GuardDriver) -> None:
    guard.start("a", "sleep", "60")
    guard.wait("started", "a")
    at = in_seconds(0.6)
    guard.guard.deadline(at)
    guard.wait("exited", "a")
    wait_for(lambda: in_seconds(-0.05) > at, "the deadline to be over")
    guard.start("b", "true")
    assert guard.wait("exited", "b")["by"] is None


def test_a_dead_guard_is_told_once_and_refuses_orders(guard: GuardDriver) -> None:
    guard.start("a", "sleep", "60")
    pid = guard.wait("started", "a")["pid"]
    os.kill(guard.guard.pid, signal.SIGKILL)
    assert guard.wait("gone") == {"event": "gone", "exit_code": None, "signal": signal.SIGKILL}
    wait_dead(pid)
    assert guard.guard.receive() == []
    with pytest.raises(GuardGone, match="every child with it"):
        guard.guard.kill("a", signal.SIGKILL)


def test_orders_to_a_stopped_guard_are_refused_in_time(guard: GuardDriver) -> None:
    guard.wait("up")
    os.kill(guard.guard.pid, signal.SIGSTOP)
    wait_for(lambda: not guard.guard.deadline(None), "the socket to be full", seconds=10)
    began = time.monotonic()
    with pytest.raises(GuardStuck, match="doesn't read its socket"):
        guard.guard.kill("a", signal.SIGKILL)
    assert 1.5 < time.monotonic() - began < 5
    assert guard.guard.stop(timeout=0.1) == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_meant_for_the_worker_dont_touch_the_guard(guard: GuardDriver, number: signal.Signals) -> None:
    guard.wait("up")
    os.kill(guard.guard.pid, number)
    guard.start("a", "true")
    assert guard.wait("exited", "a")["exit_code"] == 0


def test_ctrl_c_in_the_terminal_doesnt_reach_guard_or_children(guard: GuardDriver) -> None:
    guard.start("a", "sleep", "60")
    pid = guard.wait("started", "a")["pid"]
    assert len({os.getsid(0), os.getsid(guard.guard.pid), os.getsid(pid)}) == 3
