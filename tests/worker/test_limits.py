"""What a child may not: use more than its prefix may, become somebody else, write for everybody, leave a core."""

from __future__ import annotations

import marshal
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Database
from tests.worker.harness import ROOT, House

APP = """
import ctypes, resource, socket

def looks(payload):
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    names = ("AS", "NOFILE", "FSIZE", "NPROC", "CPU", "CORE")
    limits = {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name))[0] for name in names}
    return {"pid": os.getpid(), "uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(),
            "limits": limits, "no_new_privs": status["NoNewPrivs"].strip(), "umask": status["Umask"].strip(),
            "dumpable": ctypes.CDLL(None).prctl(3, 0, 0, 0, 0),
            "networks": [name for _, name in socket.if_nameindex()]}

for name in ("plain.looks", "small.looks", "own.looks"):
    task(name)(looks)

@task("small.eats", max_attempts=1)
def eats(payload):
    bytearray(1 << 30)

@task("small.opens", max_attempts=1)
def opens(payload):
    return len([open("/dev/null") for _ in range(200)])

@task("small.writes", max_attempts=1)
def writes(payload):
    with open(HERE + "/big", "wb", buffering=0) as file:
        return file.write(b"x" * 4096) and file.write(b"x")

@task("busy.burns", max_attempts=1)
def burns(payload):
    until = time.process_time() + payload["s"]
    while time.process_time() < until:
        pass
    return os.getpid()

@task("own.calls", max_attempts=1)
def calls(payload):
    try:
        socket.create_connection(("127.0.0.1", payload["port"]), 5).close()
    except OSError as error:
        return str(error)
    return "connected"
"""
LIMITS = """
[[limits]]
prefix = "small."
memory = "400MiB"
files = 160
file_size = 4096
processes = 4000

[[limits]]
prefix = "busy."
cpu = "1s"
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user or leave its network")


def unlimited(limits: dict[str, int]) -> set[str]:
    return {name for name, value in limits.items() if value == -1}


def result(house: House, task_type: str, payload: dict[str, Any] | None = None) -> Any:
    row = house.final(house.enqueue(task_type, payload))
    assert row["status"] == "SUCCESSFUL", (row["failure_kind"], row["last_error"], house.story())
    return row["result_json"]


def test_a_prefix_with_limits_has_children_of_its_own_that_keep_them(house: House) -> None:
    house.app(APP)
    house.worker("--config", house.config(LIMITS)).ready()
    plain, small = result(house, "plain.looks"), result(house, "small.looks")
    assert plain["pid"] != small["pid"]
    assert {"AS", "FSIZE", "CPU"} <= unlimited(plain["limits"])
    assert [small["limits"][name] for name in ("AS", "NOFILE", "FSIZE", "NPROC")] == [400 << 20, 160, 4096, 4000]
    failures = {name: house.final(house.enqueue(f"small.{name}"))["last_error"] for name in ("eats", "opens", "writes")}
    assert "MemoryError" in failures["eats"]
    assert "Too many open files" in failures["opens"]
    assert "File too large" in failures["writes"]


def test_a_file_limit_leaves_no_module_compiled_by_half(house: House) -> None:
    house.app("@task('small.is')\ndef small(payload): return 1\n" + f"TEXT = {'x' * 9000!r}\n")
    worker = house.worker(
        "--config", house.config('[[limits]]\nprefix = "small."\nfile_size = 4096\n'), "--processes", "1"
    )
    assert result(house, "small.is") == 1
    worker.stop()
    for compiled in house.folder.rglob("*.pyc"):
        marshal.loads(compiled.read_bytes()[16:])


def test_the_cpu_limit_counts_for_one_task_and_not_for_all_that_a_child_ran(house: House) -> None:
    house.app(APP)
    house.worker("--config", house.config(LIMITS)).ready()
    pids = {result(house, "busy.burns", {"s": 0.4}) for _ in range(4)}
    assert len(pids) == 4
    row = house.final(house.enqueue("busy.burns", {"s": 30}))
    assert (row["status"], row["failure_kind"]) == ("FAILED", "killed")


def test_every_child_writes_for_itself_only_gains_nothing_and_leaves_no_core(house: House) -> None:
    house.app(APP)
    for recycle in ("50000", "1"):
        worker = house.worker("--recycle", recycle).ready()
        seen = result(house, "plain.looks")
        assert (seen["umask"], seen["no_new_privs"], seen["limits"]["CORE"]) == ("0077", "1", 0)
        assert seen["dumpable"] == 0
        worker.stop()


@as_root
def test_a_worker_whose_tasks_run_as_root_says_so_once(house: House) -> None:
    house.app(APP)
    worker = house.worker().ready()
    assert worker.log.count("tasks_run_as_root") == 1


@pytest.fixture
def open_house(database: Database) -> Iterator[House]:
    """A folder that other users may enter; pytest's own is root's alone."""
    folder = Path(tempfile.mkdtemp(prefix="reproq-limits-"))
    folder.chmod(0o755)
    house = House(database, folder)
    yield house
    house.close()
    shutil.rmtree(folder)


def _may_run(uid: int) -> bool:
    command = [sys.executable, "-c", "import reproq.executor.child"]
    try:
        done = subprocess.run(command, cwd=ROOT, user=uid, group=uid, capture_output=True, check=False)
    except PermissionError:
        return False
    return done.returncode == 0


@as_root
def test_each_child_may_have_a_user_and_a_network_of_its_own(open_house: House) -> None:
    if not _may_run(20000):
        pytest.skip("another user can't read this Python or checkout")
    house = open_house
    house.app(APP)
    own = '[[limits]]\nprefix = "own."\nuid = "20000-20001"\nchildren = 2\nnetwork = "none"\n'
    worker = house.worker("--config", house.config(own)).ready()
    seen = [house.final(task_id)["result_json"] for task_id in house.enqueue_many("own.looks", [{}] * 40)]
    assert {tuple(each["uid"]) for each in seen} <= {(20000,) * 3, (20001,) * 3}
    assert {each["uid"][0] for each in seen} == {each["gid"][0] for each in seen}
    assert all((each["groups"], each["networks"], each["no_new_privs"]) == ([], ["lo"], "1") for each in seen)
    uids = sorted(Path(f"/proc/{child.pid}").stat().st_uid for child in worker.children())
    assert uids == [0, 20000, 20001]
    assert "unreachable" in result(house, "own.calls", {"port": house.database.server.port})
    guard = worker.guard()
    os.kill(guard.pid, 9)
    worker.wait_event("guard_died")  # and its children with it, whoever they run as
    assert house.final(house.enqueue("own.looks"))["status"] == "SUCCESSFUL"


@as_root
def test_a_fork_of_a_template_has_its_limits_too(open_house: House) -> None:
    if not _may_run(20000):
        pytest.skip("another user can't read this Python or checkout")
    house = open_house
    house.app(APP)
    own = '[[limits]]\nprefix = "own."\nuid = 20000\nnetwork = "none"\ncpu = 5\nmemory = "1GiB"\n'
    house.worker("--config", house.config(own)).ready()
    seen = [result(house, "own.looks") for _ in range(2)]
    assert seen[0]["pid"] != seen[1]["pid"]
    assert all((each["uid"][0], each["networks"], each["limits"]["CPU"]) == (20000, ["lo"], 5) for each in seen)


SHELL = r"""#!/bin/sh
echo '{"v":1}'
while read -r line; do
    field() { printf '%s' "$line" | sed 's/.*"'$1'":\([0-9]*\).*/\1/'; }
    seen="$(id -u) $(id -G) $(umask) $(ulimit -n) $(grep -c : /proc/net/dev)"
    printf '{"v":1,"id":%s,"claim_no":%s,"success":true,"payload":"%s"}\n' "$(field id)" "$(field claim_no)" "$seen"
done
"""


@as_root
def test_a_custom_command_keeps_the_limits_of_its_prefix(open_house: House) -> None:
    program = open_house.mark("child")
    program.write_text(SHELL)
    program.chmod(0o755)
    tables = f'[[command]]\nprefix = "sh."\ncommand = ["{program}"]\n'
    tables += '[[limits]]\nprefix = "sh."\nuid = 20000\nnetwork = "none"\nfiles = 200\n'
    open_house.worker("--config", open_house.config(tables)).ready()
    assert result(open_house, "sh.looks") == "20000 20000 0077 200 1"
