"""What becomes of a task, whatever its code does."""

from __future__ import annotations

import signal

import pytest

from tests.worker.harness import House, is_alive

APP = """
from pydantic import BaseModel

@task("ok")
def ok(payload):
    return {"doubled": payload["n"] * 2, "text": "Grüße ✓", "none": None}

@task("late", backoff_base=0.05)
def late(payload, ctx: Context):
    if ctx.attempt < payload["from"]:
        raise ValueError(f"not at attempt {ctx.attempt}")
    return [ctx.attempt, ctx.max_attempts, ctx.idempotency_key, ctx.queue_name, ctx.task_type]

@task("dies", backoff_base=0.05)
def dies(payload, ctx: Context):
    if ctx.attempt == 1:
        if "exit" in payload:
            os._exit(payload["exit"])
        os.kill(os.getpid(), payload["signal"])
        time.sleep(60)
    return os.getpid()

@task("segfaults")
def segfaults(payload):
    import ctypes
    ctypes.string_at(0)

@task("exits", backoff_base=0.05)
def exits(payload, ctx: Context):
    if ctx.attempt == 1:
        sys.exit(3)
    return os.getpid()

@task("gives_up")
def gives_up(payload):
    raise Fail("no such customer")

@task("asks_later")
def asks_later(payload, ctx: Context):
    if ctx.attempt == 1:
        raise Retry("rate limited", in_=0.3)
    return time.time()

@task("snoozes")
def snoozes(payload, ctx: Context):
    if not os.path.exists(HERE + "/snoozed"):
        open(HERE + "/snoozed", "w").close()
        ctx.snooze(0.2)
    return ctx.attempt

class Order(BaseModel):
    quantity: int

@task("strict")
async def strict(payload: Order):
    return payload.quantity

@task("bad_result")
def bad_result(payload):
    return {"nan": float("nan"), "lone": "\\ud800", "nul": "a\\0b", "object": object()}[payload["what"]]

@task("slow", backoff_base=0.05)
def slow(payload, ctx: Context):
    leftover = subprocess.Popen(["setsid", "sleep", "300"])
    with open(HERE + "/leftover", "a") as file:
        file.write(f"{leftover.pid}\\n")
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(300)

@task("slow_by_type", timeout=0.3, max_attempts=1)
def slow_by_type(payload):
    while True:
        pass
"""


@pytest.fixture(autouse=True)
def app(house: House) -> None:
    house.app(APP)


def test_a_task_succeeds_and_its_result_is_stored(house: House) -> None:
    task_id = house.enqueue("ok", {"n": 21})
    house.worker().ready()
    row = house.final(task_id)
    assert row["status"] == "SUCCESSFUL"
    assert row["result_json"] == {"doubled": 42, "text": "Grüße ✓", "none": None}
    assert (row["attempt_count"], row["failure_kind"], row["last_error"], row["error_json"]) == (1, None, None, None)
    assert row["created_at"] <= row["claimed_at"] <= row["started_at"] <= row["completed_at"]


def test_a_task_that_raises_is_retried_until_it_succeeds(house: House) -> None:
    task_id = house.enqueue("late", {"from": 3}, idempotency_key="customer-7", queue_name="slow")
    worker = house.worker().ready()
    row = house.final(task_id)
    assert row["result_json"] == [3, 3, "customer-7", "slow", "late"]
    assert (row["attempt_count"], row["failure_kind"], row["last_error"]) == (3, None, None)
    lines = worker.events("task_retried", task_id=task_id)
    assert [(line["attempt"], line["failure_kind"]) for line in lines] == [(1, "raised"), (2, "raised")]


def test_a_task_that_always_raises_ends_failed_with_its_error_and_traceback(house: House) -> None:
    task_id = house.enqueue("late", {"from": 9}, max_attempts=2)
    worker = house.worker().ready()
    row = house.final(task_id)
    assert (row["status"], row["failure_kind"], row["attempt_count"]) == ("FAILED", "raised", 2)
    assert row["last_error"] == "ValueError: not at attempt 2"
    assert row["error_json"]["type"] == "ValueError"
    assert "in late" in row["error_json"]["traceback"]
    assert [e["event"] for e in house.history(task_id)] == ["retried", "failed"]
    worker.wait_event("task_failed", task_id=task_id)
    assert house.one("select count(*) from queues.dead_letter where id = %s", task_id) == 1


@pytest.mark.parametrize(
    ("payload", "kind", "field", "value"),
    [
        ({"signal": int(signal.SIGKILL)}, "killed", "signal", 9),
        ({"signal": int(signal.SIGTERM)}, "killed", "signal", 15),
        ({"exit": 7}, "exited", "exit_code", 7),
        ({"exit": 0}, "exited", "exit_code", 0),
    ],
    ids=["sigkill", "sigterm", "exit-7", "exit-0"],
)
def test_a_task_that_ends_its_own_process_is_retried_in_another(
    house: House, payload: dict[str, int], kind: str, field: str, value: int
) -> None:
    task_id = house.enqueue("dies", payload)
    worker = house.worker().ready()
    row = house.final(task_id)
    assert (row["status"], row["attempt_count"]) == ("SUCCESSFUL", 2)
    detail = house.detail(task_id, "retried")
    assert (detail["kind"], detail[field]) == (kind, value)
    assert detail["pid"] != row["result_json"]
    assert detail["duration_s"] > 0
    assert detail["max_rss_kb"] > 1000
    assert detail["cpu_s"] > 0
    assert worker.events("child_died", task_id=task_id)


def test_a_segmentation_fault_fails_one_attempt_and_its_trace_is_kept(house: House) -> None:
    task_id = house.enqueue("segfaults", max_attempts=1)
    other = house.enqueue("ok", {"n": 1}, priority=-1)
    house.worker().ready()
    row = house.final(task_id)
    assert (row["status"], row["failure_kind"]) == ("FAILED", "killed")
    assert "SIGSEGV" in row["last_error"]
    detail = house.detail(task_id, "failed")
    assert detail["signal"] == signal.SIGSEGV
    assert "Segmentation fault" in detail["output"]
    assert house.final(other)["status"] == "SUCCESSFUL"


def test_sys_exit_in_a_task_is_that_tasks_failure_and_its_child_lives_on(house: House) -> None:
    task_id = house.enqueue("exits")
    worker = house.worker().ready()
    row = house.final(task_id)
    assert (row["status"], row["attempt_count"]) == ("SUCCESSFUL", 2)
    detail = house.detail(task_id, "retried")
    assert detail["kind"] == "raised"
    assert detail["pid"] == row["result_json"]
    assert not worker.events("child_died")


def test_fail_ends_a_task_with_attempts_left(house: House) -> None:
    task_id = house.enqueue("gives_up", max_attempts=5)
    house.worker().ready()
    row = house.final(task_id)
    assert (row["status"], row["failure_kind"], row["attempt_count"]) == ("FAILED", "raised", 1)
    assert "no such customer" in row["last_error"]


def test_retry_comes_back_after_the_delay_that_the_task_asked_for(house: House) -> None:
    task_id = house.enqueue("asks_later")
    house.worker().ready()
    row = house.final(task_id)
    retried = house.history(task_id)[0]
    assert retried["detail"]["retry_in_s"] == 0.3
    assert row["result_json"] - retried["created_at"].timestamp() >= 0.25


def test_a_snoozed_attempt_does_not_count(house: House) -> None:
    task_id = house.enqueue("snoozes", max_attempts=1)
    house.worker().ready()
    row = house.final(task_id)
    assert (row["status"], row["result_json"], row["attempt_count"], row["claim_no"]) == ("SUCCESSFUL", 1, 1, 2)


def test_an_invalid_payload_is_not_retried_and_is_recorded_without_its_values(house: House) -> None:
    bad, good = house.enqueue("strict", {"quantity": "canary"}), house.enqueue("strict", {"quantity": 3})
    house.worker().ready()
    row = house.final(bad)
    assert (row["status"], row["failure_kind"], row["attempt_count"]) == ("FAILED", "validation", 1)
    assert "quantity" in row["last_error"]
    assert "canary" not in row["last_error"]
    assert house.sql("select source, task_id from queues.error") == [("validation", bad)]
    assert house.final(good)["result_json"] == 3


@pytest.mark.parametrize("what", ["nan", "lone", "nul", "object"])
def test_a_result_that_is_not_json_fails_its_task_with_a_reason_and_leaves_the_child(house: House, what: str) -> None:
    task_id = house.enqueue("bad_result", {"what": what}, max_attempts=1)
    worker = house.worker().ready()
    row = house.final(task_id)
    assert row["status"] == "FAILED"
    assert row["failure_kind"] in ("raised", "bad_envelope")
    assert "result" in row["last_error"]
    ok = house.enqueue("ok", {"n": 1})
    assert house.final(ok)["status"] == "SUCCESSFUL"
    assert not worker.events("child_died")


def test_an_unknown_type_fails_at_once_and_says_what_the_worker_knows(house: House) -> None:
    task_id = house.enqueue("nobodys.task", max_attempts=5)
    house.worker().ready()
    row = house.final(task_id)
    assert (row["status"], row["failure_kind"], row["attempt_count"]) == ("FAILED", "no_handler_registered", 1)
    assert "no handler is registered for nobodys.task" in row["last_error"]
    assert "gives_up" in row["last_error"]


def test_a_timed_out_task_and_its_grandchild_in_another_session_are_killed_and_it_is_retried(house: House) -> None:
    task_id = house.enqueue("slow", max_attempts=2, timeout="400 milliseconds")
    worker = house.worker().ready()
    row = house.final(task_id)
    assert (row["status"], row["failure_kind"], row["attempt_count"]) == ("FAILED", "timed_out", 2)
    assert "0.4 s" in row["last_error"]
    left = [int(pid) for pid in house.mark("leftover").read_text().split()]
    assert len(left) == 2
    assert [pid for pid in left if is_alive(pid)] == []
    for event in ("retried", "failed"):
        detail = house.detail(task_id, event)
        assert detail["kind"] == "timed_out"
        assert 0.4 <= detail["duration_s"] < 5
    assert len(worker.events("task_timed_out", task_id=task_id)) == 2


def test_a_types_own_time_out_ends_a_busy_loop(house: House) -> None:
    house.worker().ready()
    house.known("slow_by_type")
    task_id = house.enqueue("slow_by_type")
    row = house.final(task_id)
    assert (row["failure_kind"], row["attempt_count"]) == ("timed_out", 1)
    assert house.final(house.enqueue("ok", {"n": 1}))["status"] == "SUCCESSFUL"


def test_a_time_out_in_the_enqueue_wins_over_the_types(house: House) -> None:
    task_id = house.enqueue("slow_by_type", timeout="1.2 seconds", max_attempts=1)
    house.worker().ready()
    house.final(task_id)
    assert 1.2 <= house.detail(task_id, "failed")["duration_s"] < 6


def test_a_type_that_a_worker_is_told_to_leave_stays_where_it_is(house: House) -> None:
    unknown = house.enqueue("nobodys.task", priority=9)
    worker = house.worker("--leave-unknown").ready()
    assert house.final(house.enqueue("ok", {"n": 1}))["status"] == "SUCCESSFUL"
    row = house.row(unknown)
    assert (row["status"], row["attempt_count"], row["claim_no"]) == ("PENDING", 0, 0)
    house.asleep()
    assert worker.stop() == 0


def test_a_type_that_may_run_once_runs_once_though_it_was_enqueued_before_any_worker_knew_it(house: House) -> None:
    house.app("@task('once', max_attempts=1)\ndef once(payload):\n    raise ValueError('the only time')\n")
    task_id = house.enqueue("once")
    assert house.row(task_id)["max_attempts"] == 3
    house.worker().ready()
    row = house.final(task_id)
    assert (row["status"], row["attempt_count"], row["max_attempts"]) == ("FAILED", 1, 1)


def test_a_task_that_closes_or_replaces_its_output_leaves_none_of_it_to_the_next(house: House) -> None:
    """Else the next file that is opened is number 1, and holds what later tasks print."""
    house.app(
        "@task('closes')\ndef closes(payload):\n    os.close(1)\n    sys.stdout = None\n"
        "@task('writes')\ndef writes(payload):\n    fd = os.open(HERE + '/data', os.O_WRONLY | os.O_CREAT)\n"
        "    os.write(fd, b'data')\n    print('to the log')\n    return fd > 2\n"
    )
    house.enqueue("closes")
    second = house.enqueue("writes")
    worker = house.worker("--processes", "1", "--until-empty")
    assert worker.status() == 0
    assert house.row(second)["result_json"] is True
    worker.wait_event("task_output", task_id=second, message="to the log")


def test_where_a_queue_asks_for_it_a_success_tells_its_child_its_time_and_its_memory(house: House) -> None:
    house.app("@task('rests')\ndef rests(payload):\n    time.sleep(0.01)\n    print('rested')\n")
    house.sql("select queues.audit_queue('default', 'all')")
    task_id = house.enqueue("rests")
    house.worker().ready()
    house.final(task_id)
    detail = house.detail(task_id, "succeeded")
    assert None not in [detail[name] for name in ("child", "pid", "duration_s", "cpu_s", "max_rss_kb")]
    assert "output" not in detail  # that of a success is in the log alone
