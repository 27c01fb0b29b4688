"""What tasks print: in the log beside their task's id, its end kept with a failure, never in an answer."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.worker.harness import House

APP = """
import ctypes
libc = ctypes.CDLL(None)

@task("talks")
def talks(payload, ctx: Context):
    name = payload["name"]
    print(f"{name} by print")
    sys.stderr.write(f"{name} by stderr\\n")
    os.write(1, f"{name} by write\\n".encode())
    libc.printf(b"%s\\n", f"{name} by printf".encode())
    subprocess.run(["sh", "-c", f"echo {name} by grandchild; echo {name} by its stderr >&2"], check=True)
    print(f"{name} without newline", end="")
    ctx.log.warning("%s by log", name)
    if payload.get("fail"):
        raise ValueError("as asked")
    return name

@task("floods")
def floods(payload):
    for i in range(payload["lines"]):
        print(f"line {i} " + "x" * 1000)
    if payload.get("fail"):
        raise ValueError("after the flood")

@task("binary")
def binary(payload):
    os.write(1, b"bytes \\xff\\xfe\\x00 end\\n")
    raise ValueError("binary")

@task("fakes")
def fakes(payload, ctx: Context):
    envelope = '{"v":1,"id":%d,"claim_no":%d,"success":true,"payload":"forged"}' % (ctx.id, ctx.claim_no)
    print(envelope, flush=True)
    os.write(1, envelope.encode() + b"\\n")
    raise Fail("not forged")

@task("closes")
def closes(payload):
    sys.stdout.close()
    os.close(1)
    os.close(2)
    return "closed"

@task("leaves")
def leaves(payload):
    subprocess.Popen(["sh", "-c", "while :; do echo noise; sleep 0.01; done"])
    return "left"

@task("nothing")
def nothing(payload): ...

@task("process")
def process(payload):
    subprocess.Popen(["yes"])

@task("loop")
def loop(payload):
    subprocess.Popen(["sh", "-c", "while :; do echo noise; done"])

@task("thread")
def thread(payload):
    import threading
    def talk():
        while True:
            print("noise")
    threading.Thread(target=talk, daemon=payload["daemon"]).start()
"""

WAYS = ("print", "stderr", "write", "printf", "grandchild", "its stderr")


@pytest.fixture(autouse=True)
def app(house: House) -> None:
    house.app(APP)


def test_every_way_of_printing_lands_in_the_log_with_the_id_of_its_own_task(house: House) -> None:
    names = [f"task{i}" for i in range(8)]
    ids = dict(zip(names, house.enqueue_many("talks", [{"name": name} for name in names]), strict=True))
    worker = house.worker("--processes", "2", "--until-empty")
    assert worker.status() == 0
    for name, task_id in ids.items():
        assert house.row(task_id)["result_json"] == name
        said = [line["message"] for line in worker.events("task_output", task_id=task_id)]
        for way in WAYS:
            assert f"{name} by {way}" in said
        assert any("by log" in text for text in said)
        assert any("without newline" in text for text in said)
        assert all(text.count("task") == 0 or name in text for text in said), said


def test_the_output_of_a_failed_attempt_is_kept_with_it(house: House) -> None:
    task_id = house.enqueue("talks", {"name": "it", "fail": True}, max_attempts=1)
    house.worker().ready()
    house.final(task_id)
    output = house.detail(task_id, "failed")["output"]
    for way in WAYS:
        assert f"it by {way}" in output
    assert "it without newline" in output


def test_only_the_last_64_kib_of_a_flood_are_kept_and_its_log_is_bounded(house: House) -> None:
    task_id = house.enqueue("floods", {"lines": 2000, "fail": True}, max_attempts=1)
    worker = house.worker().ready()
    row = house.final(task_id)
    assert "after the flood" in row["last_error"]
    output = house.detail(task_id, "failed")["output"]
    assert 60_000 < len(output.encode()) <= 65_536
    assert "line 1999 " in output
    assert "line 1 " not in output
    said = worker.events("task_output", task_id=task_id)
    assert len(said) < 100
    assert "not logged" in said[-1]["message"]


def test_the_next_task_after_a_flood_starts_with_clean_output(house: House) -> None:
    flood = house.enqueue("floods", {"lines": 500}, priority=1)
    task_id = house.enqueue("talks", {"name": "clean", "fail": True}, max_attempts=1)
    worker = house.worker("--until-empty")
    assert worker.status() == 0
    assert house.row(flood)["status"] == "SUCCESSFUL"
    assert "line " not in house.detail(task_id, "failed")["output"]
    assert all(not line["message"].startswith("line ") for line in worker.events("task_output", task_id=task_id))


def test_output_that_is_not_text_is_kept_readable(house: House) -> None:
    task_id = house.enqueue("binary", max_attempts=1)
    worker = house.worker().ready()
    assert house.final(task_id)["failure_kind"] == "raised"
    assert "bytes" in house.detail(task_id, "failed")["output"]
    assert "end" in worker.wait_event("task_output", task_id=task_id)["message"]


def test_a_printed_envelope_is_only_text(house: House) -> None:
    task_id = house.enqueue("fakes")
    house.worker().ready()
    row = house.final(task_id)
    assert (row["status"], row["result_json"]) == ("FAILED", None)
    assert "not forged" in row["last_error"]


def test_a_task_that_closes_its_output_still_answers_and_so_does_the_next(house: House) -> None:
    ids = house.enqueue_many("closes", [{}, {}], max_attempts=1)
    last = house.enqueue("talks", {"name": "after"})
    house.worker("--recycle", "1").ready()
    assert [row["result_json"] for row in house.finals([*ids, last])] == ["closed", "closed", "after"]


def test_a_leftover_that_prints_without_end_holds_nothing_up(house: House) -> None:
    ids = house.enqueue_many("leaves", [{}] * 3)
    worker = house.worker("--until-empty")
    assert worker.status() == 0
    assert {row["result_json"] for row in house.finals(ids)} == {"left"}


@pytest.mark.parametrize(
    ("leaver", "payload"),
    [("process", {}), ("loop", {}), ("thread", {"daemon": True}), ("thread", {"daemon": False})],
    ids=["yes", "a loop of a shell", "a thread", "a thread that is waited for"],
)
def test_a_leftover_that_prints_as_fast_as_it_can_keeps_neither_its_child_nor_the_worker_for_long(
    house: House, leaver: str, payload: dict[str, bool]
) -> None:
    first = house.enqueue(leaver, payload, priority=1)
    ids = house.enqueue_many("nothing", [{}] * 3000)
    worker = house.worker("--processes", "2", "--until-empty")
    assert worker.status() == 0
    assert {row["status"] for row in house.finals([first, *ids])} == {"SUCCESSFUL"}
    lines = Counter(event["task_id"] for event in worker.events("task_output") if "task_id" in event)
    assert max(lines.values()) <= 2001


def test_a_payload_never_appears_in_the_log_unless_a_task_prints_it(house: House) -> None:
    canary = "canary-7f3a"
    house.app(
        "@task('fails', backoff_base=0.05)\ndef fails(payload): raise ValueError('x')\n"
        "@task('dies', backoff_base=0.05)\ndef dies(payload): os._exit(1)\n"
        "@task('gives')\ndef gives(payload): return payload\n"
    )
    ids = [house.enqueue(name, {"secret": canary}, max_attempts=2) for name in ("fails", "dies", "gives", "unknown")]
    worker = house.worker("--until-empty", "--log-level", "debug")
    assert worker.status() == 0
    house.finals(ids)
    assert canary not in worker.log + worker.out.read_text()
    assert house.database.worker_dsn.split(":")[2].split("@")[0] not in worker.log


def test_every_line_of_the_log_is_json_with_the_same_fields(house: House) -> None:
    house.enqueue("talks", {"name": "it", "fail": True}, max_attempts=2)
    house.enqueue("nobody")
    worker = house.worker("--until-empty", "--log-level", "debug")
    assert worker.status() == 0
    lines = worker.log.splitlines()
    assert len(worker.events()) == len(lines)
    for event in worker.events():
        assert {"ts", "level", "event", "message", "worker_id"} <= event.keys(), event
    names = [event["event"] for event in worker.events()]
    for name in ("worker_started", "child_ready", "task_output", "task_retried", "task_failed", "worker_stopped"):
        assert name in names
    assert worker.out.read_text() == ""
