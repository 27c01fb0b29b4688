"""What a child is like when the guard has started it, and what is said when it can't be."""

from __future__ import annotations

import os
import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.driver import ENVIRONMENT, ROOT, GuardDriver, wait_dead, wait_for

PDEATHSIG = """
import ctypes, os
value = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(value), 0, 0, 0)
print(value.value, os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid())
"""


def test_a_child_has_exactly_three_descriptors(guard: GuardDriver) -> None:
    guard.start("other", "sleep", "60")
    child = guard.python("a", "import os; print(sorted(os.listdir('/proc/self/fd')))")
    assert child.out.line() == b"['0', '1', '2', '3']"  # 3 is the folder being listed


def test_the_three_descriptors_are_the_ones_handed_over_in_that_order(guard: GuardDriver) -> None:
    child = guard.shell("a", "read word; echo out $word; echo log $word >&2")
    os.write(child.stdin, b"hello\n")
    assert child.out.line() == b"out hello"
    assert child.log.line() == b"log hello"


def test_a_child_has_default_signals_and_an_empty_mask(guard: GuardDriver) -> None:
    status = guard.run("a", "exec cat /proc/self/status").decode().splitlines()
    masks = [line.split() for line in status if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
    theirs = 3 << 31  # 32 and 33 belong to the C library: Python can't touch them, and whoever started us may have
    assert {name: int(mask, 16) & ~theirs for name, mask in masks} == {"SigBlk:": 0, "SigIgn:": 0, "SigCgt:": 0}


def test_a_child_leads_a_session_of_its_own_and_dies_with_the_guard(guard: GuardDriver) -> None:
    assert guard.python("a", PDEATHSIG).out.line() == f"{int(signal.SIGKILL)} True True".encode()


def test_a_child_writes_no_core_file_unless_it_asks_for_one(guard: GuardDriver) -> None:
    guard.wait("up")
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.prlimit(guard.guard.pid, resource.RLIMIT_CORE, (hard, hard))
    script = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
    assert guard.python("a", script).out.line() == f"(0, {hard})".encode()


def test_limits_umask_folder_oom_score_and_privileges_are_set_when_asked_for(
    guard: GuardDriver, tmp_path: Path
) -> None:
    script = "ulimit -n; umask; pwd -P; cat /proc/self/oom_score_adj; grep NoNewPrivs /proc/self/status"
    child = guard.shell("a", script, limits={"nofile": 64}, umask=0o027, cwd=str(tmp_path), oom=500, no_new_privs=True)
    lines = [child.out.line().decode() for _ in range(5)]
    assert lines == ["64", "0027", str(tmp_path.resolve()), "500", "NoNewPrivs:\t1"]


def test_without_being_asked_umask_and_privileges_are_the_workers(guard: GuardDriver) -> None:
    ours = os.umask(0)
    os.umask(ours)
    child = guard.shell("a", "umask; grep NoNewPrivs /proc/self/status")
    assert [child.out.line(), child.out.line()] == [f"{ours:04o}".encode(), b"NoNewPrivs:\t0"]


def test_a_child_gets_the_guards_environment_with_additions_and_removals() -> None:
    driver = GuardDriver({**ENVIRONMENT, "KEPT": "1", "DROPPED": "2"})
    try:
        child = driver.shell("a", 'echo "$KEPT,$DROPPED,$ADDED"', env={"ADDED": "3", "DROPPED": None})
        assert child.out.line().decode() == "1,,3"
    finally:
        driver.close()


def test_a_childs_environment_is_nothing_but_that() -> None:
    driver = GuardDriver({"PATH": "/usr/bin:/bin", "LANG": "C"})
    try:
        lines = driver.run("a", "exec env").decode().splitlines()
        added_by_the_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
        names = {line.partition("=")[0] for line in lines} - added_by_the_shell
        assert names == {"PATH", "LANG"}
    finally:
        driver.close()


def test_started_names_the_childs_own_pid(guard: GuardDriver) -> None:
    child = guard.shell("a", "echo $$; sleep 60")
    assert guard.wait("started", "a")["pid"] == int(child.out.line())


def _script(folder: Path, text: str, mode: int) -> str:
    path = folder / "program"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("#!/bin/sh\n", 0o644, "permission denied; is it executable (chmod +x)?"),
        ("#!/no/such/interpreter\n", 0o755, "the interpreter that its #! line names doesn't exist"),
        ("\0\0\0\0 not a program", 0o755, "Exec format error; a script needs a #! line"),
    ],
)
def test_a_program_that_cant_be_run_is_told_with_its_reason(
    guard: GuardDriver, tmp_path: Path, text: str, mode: int, message: str
) -> None:
    program = _script(tmp_path, text, mode)
    guard.start("a", program)
    assert guard.wait("start_failed", "a")["error"] == f"can't start {program!r}: {message}"


def test_a_program_that_isnt_there_is_told_with_where_it_was_looked_for(guard: GuardDriver) -> None:
    guard.start("a", "no-such-program-anywhere")
    guard.start("b", "./no-such-file", cwd="/usr")
    assert "not found on PATH (" in guard.wait("start_failed", "a")["error"]
    assert (
        guard.wait("start_failed", "b")["error"]
        == "can't start './no-such-file': no such file (working directory: /usr)"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cwd": "/no/such/folder"}, "can't enter the working directory '/no/such/folder': No such file or directory"),
        ({"limits": {"colour": 3}}, "unknown limit 'colour': known are as, core, cpu,"),
        ({"limits": {"nofile": -7}}, "can't set the limit nofile=-7"),
    ],
)
def test_a_start_with_a_bad_setting_is_refused_with_its_name(
    guard: GuardDriver, options: dict[str, object], message: str
) -> None:
    guard.start("a", "true", **options)
    assert guard.wait("start_failed", "a")["error"].startswith(message)


def test_a_key_is_free_again_as_soon_as_its_failed_start_is_told(guard: GuardDriver) -> None:
    for _ in range(20):
        guard.start("a", "/no/such/program")
        guard.wait("start_failed", "a")
    guard.start("a", "true")
    assert guard.wait("exited", "a")["exit_code"] == 0


def test_a_second_child_under_a_living_key_is_refused(guard: GuardDriver) -> None:
    guard.start("a", "sleep", "60")
    pid = guard.wait("started", "a")["pid"]
    guard.start("a", "true")
    assert guard.wait("start_failed", "a")["error"] == f"the child 'a' (pid {pid}) hasn't ended yet"


def test_a_start_without_a_program_or_with_two_descriptors_is_refused(guard: GuardDriver) -> None:
    guard.guard.start_child("a", [], {}, [0, 1, 2])
    assert "names no program" in guard.wait("start_failed", "a")["error"]
    guard.guard.start_child("b", ["true"], {}, [0, 1])
    assert "2 descriptors arrived" in guard.wait("start_failed", "b")["error"]


def test_nothing_of_the_users_is_imported_by_the_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("json", "socket", "ctypes", "sitecustomize", "reproq"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('stolen')")
    monkeypatch.chdir(tmp_path)
    driver = GuardDriver({**os.environ, "PYTHONPATH": str(tmp_path)})
    try:
        assert driver.wait("up")["pid"] == driver.guard.pid
    finally:
        driver.close()


def test_a_guard_that_may_open_40_files_starts_500_children_one_after_the_other(guard: GuardDriver) -> None:
    guard.wait("up")
    resource.prlimit(guard.guard.pid, resource.RLIMIT_NOFILE, (40, 40))
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(500):
        guard.guard.start_child("a", ["/no/such/program" if number % 5 == 0 else "true"], {}, [null] * 3)
        guard.wait("start_failed" if number % 5 == 0 else "exited", "a")
    os.close(null)
    assert Path(f"/proc/{guard.guard.pid}/task/{guard.guard.pid}/children").read_text() == ""


def test_a_hundred_children_are_started_at_once(guard: GuardDriver) -> None:
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(100):
        guard.guard.start_child(f"k{number}", ["sleep", "60"], {}, [null] * 3)
    os.close(null)
    pids = {guard.wait("started", f"k{number}")["pid"] for number in range(100)}
    assert len(pids) == 100


@pytest.mark.skipif(os.geteuid() == 0, reason="everything in /proc belongs to root, and we are root")
def test_a_guard_cant_be_opened_by_a_process_of_the_same_user(guard: GuardDriver) -> None:
    """A child could otherwise take the socket, and speak for the runner."""
    guard.wait("up")
    entry = Path(f"/proc/{guard.guard.pid}/environ")
    wait_for(lambda: entry.stat().st_uid == 0, "the guard to belong to root in /proc")
    assert stat.S_IMODE(entry.stat().st_mode) == 0o400


def test_the_package_is_found_from_a_checkout_wherever_the_worker_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    driver = GuardDriver({"PATH": os.environ["PATH"]})
    try:
        driver.wait("up")
        assert (ROOT / "reproq").is_dir()
    finally:
        driver.close()


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user or leave its network")


@pytest.fixture
def grouped_guard() -> Iterator[GuardDriver]:
    """Its worker belongs to more groups than its own."""
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    before = os.getgroups()
    os.setgroups([*before, 4, 27])
    driver = GuardDriver()
    driver.wait("up")
    os.setgroups(before)
    yield driver
    driver.close()


@as_root
def test_a_child_may_run_as_another_user_without_any_of_our_groups(grouped_guard: GuardDriver) -> None:
    script = "id -u; id -G; grep -E '^(Cap(Eff|Prm)|NoNewPrivs)' /proc/self/status"
    child = grouped_guard.shell("a", script, uid=20000, no_new_privs=True)
    assert [child.out.line(), child.out.line()] == [b"20000", b"20000"]
    lines = dict(child.out.line().split(b":\t") for _ in range(3))
    assert lines == {b"CapPrm": b"0" * 16, b"CapEff": b"0" * 16, b"NoNewPrivs": b"1"}


@as_root
def test_a_child_of_another_user_dies_with_its_guard_and_by_its_order(guard: GuardDriver) -> None:
    for key in ("a", "b"):
        guard.start(key, "sleep", "60", uid=20000)
    killed, left = (guard.wait("started", key)["pid"] for key in ("a", "b"))
    guard.guard.kill("a", 9)
    assert guard.wait("exited", "a")["pid"] == killed
    os.kill(guard.guard.pid, 9)
    wait_dead(left)


@as_root
def test_a_child_may_have_a_network_with_nothing_in_it(guard: GuardDriver) -> None:
    child = guard.shell("a", "grep -c : /proc/net/dev; readlink /proc/self/ns/net", network=False)
    assert child.out.line() == b"1"
    assert child.out.line() != os.readlink("/proc/self/ns/net").encode()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may")
def test_a_user_that_cant_be_become_is_told(guard: GuardDriver) -> None:
    guard.start("a", "true", uid=20000)
    assert "it needs a worker that is root" in guard.wait("start_failed", "a")["error"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_user_of_its_own_has_none_of_the_workers_groups_and_no_way_to_a_core() -> None:
    before = os.getgroups()
    os.setgroups([*before, 4711])
    try:
        driver = GuardDriver()
    finally:
        os.setgroups(before)
    try:
        driver.wait("up")
        infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(driver.guard.pid, resource.RLIMIT_CORE, infinite)
        child = driver.shell("a", "id -G; ulimit -Hc", uid=20000)
        assert [child.out.line(), child.out.line()] == [b"20000", b"0"]
    finally:
        driver.close()
