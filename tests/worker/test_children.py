"""The children: one task each at a time, none of them precious, none of them in possession of a secret."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.worker.harness import House, wait_until

APP = """
@task("pid")
def pid(payload):
    return os.getpid()

@task("alone")
def alone(payload, ctx: Context):
    lock = f"{HERE}/lock-{os.getpid()}"
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
    time.sleep(0.01)
    os.unlink(lock)
    return os.getpid()

@task("waits", backoff_base=0.05)
def waits(payload, ctx: Context):
    with open(f"{HERE}/{payload['mark']}", "a") as file:
        file.write(f"{os.getpid()}\\n")
    while not os.path.exists(HERE + "/go"):
        time.sleep(0.01)
    return os.getpid()

@task("grows")
def grows(payload):
    globals()["kept"] = bytearray(payload["mib"] << 20)
    return os.getpid()

@task("looks")
def looks(payload):
    me = {"environ": dict(os.environ), "cwd": os.getcwd(), "path": sys.path,
          "cmdline": open("/proc/self/cmdline").read().replace("\\0", " "),
          "fds": sorted(map(int, os.listdir("/proc/self/fd")))}
    return me

def without_capabilities():
    import ctypes
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    if ctypes.CDLL(None, use_errno=True).capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno())

@task("spies")
def spies(payload):
    # As any process of this uid could, root's privileges aside.
    without_capabilities()
    seen = []
    for pid in payload["pids"]:
        for name in ("environ", "mem", "fd/0"):
            path = f"/proc/{pid}/{name}"
            try:
                os.close(os.open(path, os.O_RDONLY))
                seen.append(path)
            except PermissionError:
                pass
    return seen
"""


@pytest.fixture(autouse=True)
def app(house: House) -> None:
    house.app(APP)


def test_a_child_runs_one_task_at_a_time_and_several_children_share_the_work(house: House) -> None:
    ids = house.enqueue_many("alone", [{}] * 60)
    house.worker("--processes", "3").ready()
    rows = house.finals(ids)
    assert {row["status"] for row in rows} == {"SUCCESSFUL"}
    assert len({row["result_json"] for row in rows}) == 3


def test_a_busy_child_that_is_killed_from_outside_costs_its_own_task_one_attempt_and_no_other_anything(
    house: House,
) -> None:
    ids = {mark: house.enqueue("waits", {"mark": mark}) for mark in ("one", "two", "three")}
    house.worker("--processes", "3").ready()
    pids = {mark: int(house.wait_mark(mark).split()[0]) for mark in ids}
    os.kill(pids["two"], signal.SIGKILL)
    house.mark("go").touch()
    rows = {mark: house.final(task_id) for mark, task_id in ids.items()}
    assert {mark: row["attempt_count"] for mark, row in rows.items()} == {"one": 1, "two": 2, "three": 1}
    assert (rows["one"]["result_json"], rows["three"]["result_json"]) == (pids["one"], pids["three"])
    assert house.detail(ids["two"], "retried")["kind"] == "killed"


def test_an_idle_child_that_is_killed_is_replaced_and_no_attempt_is_counted(house: House) -> None:
    worker = house.worker().ready()
    first = house.final(house.enqueue("pid"))["result_json"]
    os.kill(first, signal.SIGKILL)
    worker.wait_event("child_died")
    row = house.final(house.enqueue("pid"))
    assert row["attempt_count"] == 1
    assert row["result_json"] != first


def test_the_guard_killed_from_outside_takes_its_children_along_and_another_one_starts(house: House) -> None:
    task_id = house.enqueue("waits", {"mark": "began"})
    worker = house.worker("--processes", "2").ready()
    child = int(house.wait_mark("began"))
    guard = worker.guard().pid
    os.kill(guard, signal.SIGKILL)
    worker.wait_event("guard_died")
    wait_until(lambda: not Path(f"/proc/{child}/exe").exists(), "the end of the child")
    house.mark("go").touch()
    row = house.final(task_id)
    assert (row["status"], row["attempt_count"]) == ("SUCCESSFUL", 2)
    assert worker.guard().pid != guard
    assert worker.stop() == 0


def test_a_child_is_replaced_after_as_many_tasks_as_it_may_run(house: House) -> None:
    ids = house.enqueue_many("pid", [{}] * 7)
    house.worker("--recycle", "3").ready()
    pids = [row["result_json"] for row in house.finals(ids)]
    assert sorted(pids.count(pid) for pid in set(pids)) == [1, 3, 3]


def test_recycle_1_gives_every_task_a_process_of_its_own(house: House) -> None:
    ids = house.enqueue_many("pid", [{}] * 6)
    worker = house.worker("--recycle", "1", "--processes", "2", "--until-empty")
    assert worker.status() == 0
    assert len({row["result_json"] for row in house.finals(ids)}) == 6
    assert not worker.events("child_died")
    assert not worker.events("child_boot_failed")


def test_a_child_that_has_grown_too_big_is_replaced_after_its_task(house: House) -> None:
    worker = house.worker("--max-memory", "200MiB").ready()
    big = house.final(house.enqueue("grows", {"mib": 256}))
    assert big["status"] == "SUCCESSFUL"
    worker.wait_event("child_recycled")
    small = house.final(house.enqueue("grows", {"mib": 1}))
    assert small["result_json"] != big["result_json"]
    assert small["attempt_count"] == 1


def test_a_child_that_grows_too_big_in_the_middle_of_a_task_finishes_it(house: House) -> None:
    house.app(
        "@task('hog')\ndef hog(payload):\n    kept = bytearray(300 << 20)\n    open(HERE + '/big', 'w').write('x')\n"
        "    while not os.path.exists(HERE + '/go'): time.sleep(0.01)\n    return len(kept)\n"
    )
    task_id = house.enqueue("hog")
    worker = house.worker("--max-memory", "200MiB").ready()
    house.wait_mark("big")
    worker.wait_event("child_recycled")
    house.mark("go").touch()
    assert house.final(task_id)["attempt_count"] == 1
    wait_until(lambda: len(worker.children()) == 1, "one child again")


def test_a_limit_below_what_a_fresh_child_needs_doesnt_keep_tasks_from_running(house: House) -> None:
    worker = house.worker("--max-memory", "1MiB").ready()
    rows = house.finals(house.enqueue_many("pid", [{}] * 4))
    assert {row["attempt_count"] for row in rows} == {1}
    assert len(worker.events("child_recycled")) <= 4


def test_environment_command_line_and_descriptors_of_a_child_hold_no_secret_and_no_payload(house: House) -> None:
    dsn = house.database.worker_dsn
    password = dsn.split(":")[2].split("@")[0]
    secrets = {"RESEND_API_KEY": "canary-resend", "PGPASSWORD": "canary-pg", "ANOTHER_URL": dsn}
    worker = house.worker("--database-url", dsn, USER_SETTING="kept", **secrets)
    me = house.final(house.enqueue("looks", {"secret": "canary-payload"}))["result_json"]
    text = repr((me["environ"], me["cmdline"]))
    assert password not in text
    assert "canary" not in text
    assert me["environ"]["USER_SETTING"] == "kept"
    assert me["fds"][:3] == [0, 1, 2]
    assert len(me["fds"]) <= 7, me["fds"]  # the protocol and the log, and the one that lists them
    for process in worker.family():
        seen = process.file("cmdline") + process.file("environ") * (process.pid in [c.pid for c in worker.children()])
        assert b"canary-payload" not in seen
        assert password.encode() not in seen


def test_a_task_cant_look_into_the_worker_the_guard_or_a_system_child(house: House) -> None:
    worker = house.worker("--system-processes", "1", "--log-level", "debug").ready()
    worker.wait_event("child_ready", count=2)
    pids = {event["child"].split("-")[0]: event["child_pid"] for event in worker.events("child_ready")}
    others = {"runner": worker.pid, "guard": worker.guard().pid, "system child": pids["system"]}
    row = house.final(house.enqueue("spies", {"pids": list(others.values())}, max_attempts=1))
    assert row["status"] == "SUCCESSFUL", row["last_error"]
    assert row["result_json"] == [], others


def test_a_child_finds_the_working_directory_and_the_python_path_of_the_worker(house: House) -> None:
    house.worker().ready()
    me = house.final(house.enqueue("looks"))["result_json"]
    assert me["cwd"] == os.getcwd()
    assert me["environ"]["PYTHONPATH"] == str(house.folder)
    assert str(house.folder) in me["path"]


def test_a_name_is_handed_over_on_request(house: House) -> None:
    dsn = house.database.worker_dsn
    environ = {"REPROQ_DATABASE_URL": "", "DATABASE_URL": dsn, "OTHER_URL": dsn}
    house.worker("--child-env", "DATABASE_URL", **environ).ready()
    seen = house.final(house.enqueue("looks"))["result_json"]["environ"]
    assert seen["DATABASE_URL"] == dsn
    assert "OTHER_URL" not in seen


def test_in_strict_mode_only_what_is_named_passes(house: House) -> None:
    house.worker("--child-env-only", "--child-env", "WANTED", WANTED="yes", UNWANTED="no").ready()
    seen = house.final(house.enqueue("looks"))["result_json"]["environ"]
    assert seen["WANTED"] == "yes"
    assert "UNWANTED" not in seen


def test_a_payload_of_a_megabyte_and_a_result_of_eight_pass(house: House) -> None:
    house.app("@task('big')\ndef big(payload):\n    return payload['text'] * 8\n")
    text = "ü" * 400_000
    task_id = house.enqueue("big", {"text": text})
    house.worker().ready()
    row = house.final(task_id)
    assert row["status"] == "SUCCESSFUL", row["last_error"]
    assert row["result_json"] == text * 8


def test_a_child_that_writes_much_before_it_reads_its_task_blocks_nobody(house: House) -> None:
    house.app(
        "@task('noisy')\ndef noisy(payload):\n    for _ in range(200): print('x' * 50_000)\n"
        "    return len(payload['text'])\n"
    )
    ids = house.enqueue_many("noisy", [{"text": "y" * 500_000}] * 4)
    house.worker("--processes", "2").ready()
    assert {row["result_json"] for row in house.finals(ids)} == {500_000}


def test_titles_tell_what_is_running(house: House) -> None:
    task_id = house.enqueue("waits", {"mark": "began"})
    worker = house.worker("--queue", "default").ready()
    house.wait_mark("began")

    def titles() -> set[str]:
        return {p.command for p in worker.family()} | {Path(f"/proc/{worker.pid}/cmdline").read_text().strip("\0 ")}

    def told() -> bool:
        text = "\n".join(titles())
        return f"reproq child: #{task_id} waits" in text and "reproq worker: default: 1 running" in text

    wait_until(told, lambda: f"titles that tell of task {task_id}: {titles()}")
    assert any(title.startswith("reproq guard") for title in titles())
    house.mark("go").touch()
    house.final(task_id)
    wait_until(lambda: "reproq child: idle" in "\n".join(titles()), titles)


def test_payloads_and_results_that_wait_in_a_worker_are_bounded_by_a_setting(house: House) -> None:
    house.app("@task('big')\ndef big(payload): return payload['pad']\n@task('small')\ndef small(payload): pass\n")
    worker = house.worker("--max-in-flight", "1MiB", "--processes", "2").ready()
    house.finals(house.enqueue_many("small", [{}] * 3000))  # from now on it claims much ahead
    before = highest_memory(worker.pid)
    rows = house.finals(house.enqueue_many("big", [{"pad": "x" * 400_000}] * 250))
    assert {row["status"] for row in rows} == {"SUCCESSFUL"}
    assert highest_memory(worker.pid) - before < 25_000  # KiB; all of them together would be 100 MB, twice
    assert worker.stop() == 0


def highest_memory(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])


def test_a_child_that_cant_start_beside_one_that_works_is_told_once_and_tried_ever_more_rarely(house: House) -> None:
    house.app(
        "try:\n    os.close(os.open(HERE + '/first', os.O_CREAT | os.O_EXCL))\n"
        "except FileExistsError:\n    open(HERE + '/tries', 'a').write('x'); raise RuntimeError('only one of us')\n"
        "@task('pid')\ndef pid(payload): return os.getpid()\n"
    )
    worker = house.worker("--processes", "2").ready()
    worker.wait_event("child_boot_failed")
    for _ in range(40):
        house.final(house.enqueue("pid"))
    wait_until(lambda: house.mark("tries").stat().st_size >= 4, "a fourth try")
    assert house.mark("tries").stat().st_size <= 6
    assert len(worker.events("child_boot_failed")) == 1
