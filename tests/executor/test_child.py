"""The Python child as the runner sees it: lines in, one envelope out for each, and how it starts and ends."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reproq.models.envelope import BadEnvelope, read_envelope
from tests.executor.driver import ChildDriver, wait_for

App = Callable[..., ChildDriver]

BASICS = """
    @task("echo", max_attempts=5, timeout=30, contain=True)
    def echo(payload): return payload
    @task("nothing")
    def nothing(payload): pass
    @task("boom")
    def boom(payload): raise ValueError("boom")
"""


def test_ready_names_the_types_with_the_settings_they_were_given(app: App) -> None:
    assert app(BASICS).ready == {
        "v": 1,
        "types": {"echo": {"max_attempts": 5, "timeout": 30.0, "contain": True}, "nothing": {}, "boom": {}},
    }


def test_a_result_comes_back_in_the_envelope(app: App) -> None:
    payload = {"n": 1, "text": "häß ✓ \U0001f600", "list": [1.5, None, True, {"deep": []}]}
    assert app(BASICS).run("echo", payload) == {"v": 1, "id": 1, "claim_no": 1, "success": True, "payload": payload}


def test_no_result_leaves_the_payload_out(app: App) -> None:
    assert app(BASICS).run("nothing", claim_no=7) == {"v": 1, "id": 1, "claim_no": 7, "success": True}


def test_an_exception_is_told_with_the_tasks_own_frames_only(app: App) -> None:
    envelope = app(BASICS).run("boom")
    assert (envelope["success"], envelope["error"]) == (False, "ValueError: boom")
    assert envelope["error_detail"]["type"] == "ValueError"
    assert envelope["error_detail"]["traceback"].count("File ") == 1
    assert 'raise ValueError("boom")' in envelope["error_detail"]["traceback"]
    assert envelope["cpu_s"] >= 0
    assert envelope["max_rss_kb"] > 1000


def test_a_task_of_any_length_tells_what_it_cost_but_for_the_shortest(app: App) -> None:
    child = app("""
        import subprocess, sys
        @task("short")
        def short(payload): return 1
        @task("busy")
        def busy(payload): sum(range(5_000_000))
        @task("program")
        def program(payload): subprocess.run([sys.executable, "-S", "-c", "sum(range(5_000_000))"])
    """)
    assert "cpu_s" not in child.run("short")
    busy = child.run("busy")
    assert busy["cpu_s"] > 0.005
    assert busy["ran_s"] > 0.005
    assert child.run("program")["cpu_s"] > 0.005


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        ("Retry('later', in_=2.5)", {"error": "later", "retry_in_s": 2.5}),
        ("Retry(in_=__import__('datetime').timedelta(minutes=1))", {"error": "Retry", "retry_in_s": 60.0}),
        ("Retry()", {"error": "Retry"}),
        ("Fail('no such invoice')", {"error": "no such invoice", "final": True}),
        ("SystemExit(3)", {"error": "SystemExit: 3"}),
        ("KeyboardInterrupt()", {"error": "KeyboardInterrupt"}),
        ("GeneratorExit()", {"error": "GeneratorExit"}),
        ("MemoryError()", {"error": "MemoryError"}),
        ("ValueError('half \\ud800 and \\0 NUL')", {"error": "ValueError: half \\ud800 and \\0 NUL"}),
        ("type('Mute', (Exception,), {'__str__': lambda self: 1/0})()", {"error": "Mute"}),
    ],
)
def test_whatever_a_task_raises_is_its_failure_and_the_child_goes_on(
    app: App, raised: str, expected: dict[str, object]
) -> None:
    child = app(f"{BASICS}\n    @task('raise')\n    def raises(payload): raise {raised}\n")
    envelope = child.run("raise")
    assert envelope["success"] is False
    fields = ("error", "retry_in_s", "final", "snooze_s")
    assert {name: envelope[name] for name in fields if name in envelope} == expected
    assert child.run("echo")["success"]


def test_endless_recursion_is_a_failure(app: App) -> None:
    child = app("@task('deep')\ndef deep(payload): return deep(payload)\n")
    assert child.run("deep")["error"].startswith("RecursionError: ")


def test_a_long_error_is_cut(app: App) -> None:
    child = app("@task('long')\ndef long(payload): raise ValueError('x' * 10_000_000)\n")
    envelope = child.run("long")
    assert len(envelope["error"]) < 5_000
    assert len(envelope["error_detail"]["traceback"]) < 40_000


def test_snooze_ends_the_attempt_and_says_for_how_long(app: App) -> None:
    child = app("@task('sleepy')\ndef sleepy(payload, ctx): ctx.snooze(90)\n")
    envelope = child.run("sleepy")
    assert (envelope["success"], envelope["snooze_s"], envelope["error"]) == (False, 90.0, "snoozed for 90 s")


def test_an_async_task_that_a_plain_decorator_hides_is_told_how_to_await_it(app: App) -> None:
    source = """
import functools
def plain(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)
    return wrapper
@task('hidden')
@plain
async def hidden(payload):
    return 1
"""
    child = app(source)
    envelope = child.run("hidden")
    assert "a coroutine isn't JSON: nobody awaited it" in envelope["error"]
    assert "async def wrapper" in envelope["error"]


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ("float('nan')", "NaN or an infinity"),
        ("{'a': [float('inf')]}", "NaN or an infinity"),
        ("'\\ud800'", "lone surrogate"),
        ("{'key \\udfff': 1}", "lone surrogate"),
        ("['a\\0b']", "NUL character"),
        ("{'a\\0b': 1}", "NUL character"),
        ("object()", "a object isn't JSON: return dict"),
        ("b'bytes'", "a bytes isn't JSON"),
        ("{(1, 2): 3}", "keys must be str"),
        ("__import__('functools').reduce(lambda a, _: [a], range(64), 1)", None),
        ("__import__('functools').reduce(lambda a, _: [a], range(65), 1)", "nested deeper than 64"),
        ("__import__('functools').reduce(lambda a, _: {'k': a}, range(5000), 1)", "nested deeper than 64"),
        ("(lambda a: a.append(a) or a)([])", "contains itself"),
        ("10 ** 999", None),
        ("[10 ** 1001]", "more than 1000 digits"),
        ("10 ** 5000", "integer string conversion"),
        ("'[' * 100", None),
        ("'9' * 2000", None),
        ("'\\\\u0000'", None),
    ],
)
def test_a_result_that_the_database_cant_store_is_a_clear_failure(app: App, result: str, why: str | None) -> None:
    child = app(f"{BASICS}\n    @task('result')\n    def result(payload): return {result}\n")
    envelope = child.run("result")
    if why is None:
        assert envelope["success"]
    else:
        assert envelope["success"] is False
        assert why in envelope["error"]
    assert child.run("echo")["success"]


def test_a_payload_and_a_result_of_many_megabytes_pass(app: App) -> None:
    payload = {"data": "x" * 5_000_000, "list": list(range(100_000))}
    assert app(BASICS).run("echo", payload)["payload"] == payload


def test_a_type_without_handler_fails_for_good(app: App) -> None:
    envelope = app(BASICS).run("unknown")
    assert envelope["final"] is True
    assert envelope["error_detail"]["type"].endswith("NoHandlerRegistered")


def test_lines_sent_ahead_are_run_in_order_with_one_envelope_each(app: App) -> None:
    child = app(BASICS)
    ids = [child.order("echo", {"n": n}) for n in range(500)]
    assert [child.answer()["id"] for _ in ids] == ids


def test_a_line_that_arrives_in_pieces_is_one_order(app: App) -> None:
    child = app(BASICS)
    line = json.dumps({"v": 1, "do": "run", "id": 9, "claim_no": 1, "task_type": "echo", "payload": {"é": 1}}).encode()
    for piece in (line[:10], line[10:-3], line[-3:], b"\n"):
        os.write(child.stdin, piece)
    assert child.answer()["payload"] == {"é": 1}


def test_unknown_keys_and_unknown_orders_are_ignored(app: App) -> None:
    child = app(BASICS)
    child.send(do="dance", id=1)
    assert child.run("echo", colour="red")["success"]


def test_stop_ends_the_child_after_the_lines_before_it(app: App) -> None:
    child = app(BASICS)
    first = child.order("echo")
    child.send(do="stop")
    child.order("echo")
    assert child.answer()["id"] == first
    assert child.process.wait(10) == 0
    assert child.out.rest() == b""


def test_end_of_file_ends_the_child(app: App) -> None:
    child = app(BASICS)
    child.order("echo")
    assert child.end() == 0
    assert child.answer()["success"]


def test_a_runner_that_went_away_ends_the_child_without_a_word(app: App) -> None:
    child = app(BASICS)
    assert child.process.stdout
    os.dup2(os.open("/dev/null", os.O_RDONLY), child.process.stdout.fileno())
    child.order("echo")
    assert child.process.wait(10) == 1
    assert child.log.rest() == b""


CANCELLABLE = """
    @task("wait")
    def wait(payload, ctx):
        print("began", flush=True)
        while not ctx.cancelled():
            pass
        return ctx.cancelled()
    @task("ask")
    def ask(payload, ctx): return ctx.cancelled()
"""


def test_a_cancel_reaches_the_running_task_and_keeps_what_was_sent_with_it(app: App) -> None:
    child = app(CANCELLABLE)
    waiting = child.order("wait")
    child.log.until(b"began")
    later = child.order("ask")
    child.send(do="cancel", id=waiting, claim_no=2)  # of another claim: not meant
    child.send(do="cancel", id=waiting, claim_no=1)
    answers = [child.answer(), child.answer()]
    assert [(a["id"], a["payload"]) for a in answers] == [(waiting, True), (later, False)]


def test_a_cancel_of_a_waiting_line_is_known_when_it_begins(app: App) -> None:
    child = app(CANCELLABLE)
    first = child.order("wait")
    child.log.until(b"began")
    second = child.order("ask")
    child.send(do="cancel", id=second, claim_no=1)
    child.send(do="cancel", id=first, claim_no=1)
    assert [child.answer()["payload"], child.answer()["payload"]] == [True, True]
    child.order("ask", id=second)  # a cancel is over with its task
    assert child.answer()["payload"] is False


def test_an_envelope_whose_writing_is_interrupted_by_signals_is_whole(app: App) -> None:
    child = app("""
        import signal
        @task("interrupted")
        def interrupted(payload):
            signal.signal(signal.SIGALRM, lambda *_: None)
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
            return "x" * 3_000_000
    """)
    for _ in range(3):
        child.order("interrupted")
        child.out.more(10)
        assert child.answer()["payload"] == "x" * 3_000_000


def test_stop_isnt_a_cancel(app: App) -> None:
    child = app(CANCELLABLE)
    number = child.order("wait")
    child.log.until(b"began")
    child.send(do="cancel", id=number, claim_no=1)
    child.send(do="stop")
    assert child.answer()["payload"] is True
    assert child.process.wait(10) == 0


def test_the_context_tells_what_the_order_said(app: App) -> None:
    child = app("""
        @task("tell")
        def tell(payload, ctx: Context):
            left = ctx.remaining()
            names = ("id", "claim_no", "attempt", "max_attempts", "task_type", "queue_name", "idempotency_key")
            return {n: getattr(ctx, n) for n in names} | {"left": left, "deadline": str(ctx.deadline)}
    """)
    told = child.run("tell", claim_no=4, attempt=2, deadline_s=60)["payload"]
    assert 59 < told.pop("left") <= 60
    assert told.pop("deadline")[:2] == "20"
    assert told == {
        "id": 1, "claim_no": 4, "attempt": 2, "max_attempts": 3,
        "task_type": "tell", "queue_name": "default", "idempotency_key": "task-1",
    }  # fmt: skip
    assert child.run("tell")["payload"]["deadline"] == "None"


def test_ctrl_c_doesnt_touch_a_task(app: App) -> None:
    child = app(CANCELLABLE)
    number = child.order("wait")
    child.log.until(b"began")
    child.process.send_signal(signal.SIGINT)
    child.send(do="cancel", id=number, claim_no=1)
    assert child.answer()["payload"] is True


def test_term_ends_a_child_in_the_middle_of_a_task(app: App) -> None:
    child = app(CANCELLABLE)
    child.order("wait")
    child.log.until(b"began")
    child.process.send_signal(signal.SIGTERM)
    assert child.process.wait(10) == -signal.SIGTERM
    assert child.out.rest() == b""


def test_the_title_tells_which_task_runs(app: App) -> None:
    child = app(CANCELLABLE)
    title = Path(f"/proc/{child.process.pid}/cmdline")

    def shown() -> str:
        return title.read_bytes().rstrip(b"\0").decode()

    wait_for(lambda: shown() == "reproq child: idle", "the child to be idle")
    number = child.order("wait")
    wait_for(lambda: shown() == f"reproq child: #{number} wait", "the task to be named")
    child.send(do="cancel", id=number, claim_no=1)
    child.answer()
    wait_for(lambda: shown() == "reproq child: idle", "the child to be idle again")


# starting


def failing(app: App, source: str, *modules: str, **env: str) -> str:
    child = app(source, *modules, ready=False, env=env)
    log = child.log.rest().decode()
    assert child.process.wait(10) == 1
    assert child.out.rest() == b""
    return log


def test_a_module_that_raises_is_told_with_its_traceback(app: App) -> None:
    log = failing(app, "import os\nos.environ['NOT_THERE']\n")
    assert log.startswith("Traceback")
    assert "app.py" in log
    assert "reproq/executor" not in log
    assert log.endswith("KeyError: 'NOT_THERE'\n")


def test_a_missing_module_is_named(app: App) -> None:
    assert "No module named 'nowhere'" in failing(app, "", "nowhere")


def test_a_file_instead_of_a_module_is_told_how_to_name_it(app: App) -> None:
    assert "name a module, not a file: 'my.app' instead of './my/app.py'" in failing(app, "", "./my/app.py")


def test_a_variable_that_the_worker_keeps_back_is_told_with_the_way_to_get_it(app: App) -> None:
    log = failing(app, "import os\nos.environ['DATABASE_URL']\n", REPROQ_WITHHELD="PGPASSWORD,DATABASE_URL")
    assert log.splitlines()[-1] == (
        "DATABASE_URL: the worker keeps this variable from its children; "
        "start it with --child-env DATABASE_URL to hand it over"
    )


def test_a_module_that_exits_while_it_is_imported_is_a_boot_failure(app: App) -> None:
    assert "must not exit while it is imported" in failing(app, "raise SystemExit(0)\n")


def test_a_doubled_type_is_a_boot_failure_that_names_both(app: App) -> None:
    log = failing(app, "@task('a')\ndef one(p): pass\n@task('a')\ndef two(p): pass\n")
    assert "task type 'a' is registered twice: by app.one and by app.two" in log


def test_a_child_loads_nothing_heavy_that_its_app_doesnt(app: App) -> None:
    child = app("""
        import sys
        at_boot = set(sys.modules)
        @task("loaded")
        def loaded(payload): return sorted(set(sys.modules))
    """)
    heavy = {
        "psycopg",
        "pydantic",
        "asyncio",
        "json",
        "re",
        "typing",
        "inspect",
        "logging",
        "subprocess",
        "setproctitle",
    }
    assert heavy & set(child.run("loaded")["payload"]) == set()


def test_a_child_is_small_and_starts_fast(app: App) -> None:
    child = app(BASICS)
    status = Path(f"/proc/{child.process.pid}/status").read_text()
    resident = int(status.split("VmRSS:")[1].split()[0])
    assert resident < 25 * 1024
    cpu_s = int(Path(f"/proc/{child.process.pid}/schedstat").read_text().split()[0]) / 1e9
    assert cpu_s < 0.5  # here 0.015: the bound is for a loaded machine


def test_twenty_thousand_tasks_leave_nothing_behind(app: App) -> None:
    child = app(BASICS)
    folder, status = Path(f"/proc/{child.process.pid}/fd"), Path(f"/proc/{child.process.pid}/status")

    def size() -> tuple[int, int]:
        return len(list(folder.iterdir())), int(status.read_text().split("VmRSS:")[1].split()[0])

    def burst(count: int) -> None:
        for _ in range(count // 100):
            ids = [child.order("echo", {"text": "x" * 50}) for _ in range(100)]
            assert [child.answer()["id"] for _ in ids] == ids

    burst(2_000)
    files, resident = size()
    burst(20_000)
    assert size()[0] == files
    assert size()[1] < resident + 1_000


def test_the_child_waits_without_using_the_processor(app: App) -> None:
    child = app(BASICS)
    child.run("echo")
    stat = Path(f"/proc/{child.process.pid}/schedstat")
    wait_for(lambda: Path(f"/proc/{child.process.pid}/wchan").read_text() != "0", "the child to lie down")
    before = int(stat.read_text().split()[0])
    until = time.monotonic() + 0.3
    wait_for(lambda: time.monotonic() > until, "0.3 s to pass")
    assert int(stat.read_text().split()[0]) - before < 1_000_000


@pytest.mark.parametrize("number", ["10**999", "-(10**999)", "10**1000 - 1"])
def test_a_thousand_digits_are_stored(app: App, number: str) -> None:
    child = app(f"@task('long')\ndef long(payload): return {number}\n")
    child.order("long")
    assert read_envelope(child.out.line(), 1, 1)["success"]


@pytest.mark.parametrize("number", ["10**1000", "-(10**1000)"])
def test_one_digit_more_is_refused_by_the_child_and_on_the_wire(app: App, number: str) -> None:
    child = app(f"import sys\nsys.set_int_max_str_digits(0)\n@task('long')\ndef long(payload): return {number}\n")
    assert "more than 1000 digits" in child.run("long")["error"]
    line = b'{"v":1,"id":1,"claim_no":1,"success":true,"payload":1' + b"0" * 1000 + b"}"
    with pytest.raises(BadEnvelope, match="digits"):
        read_envelope(line, 1, 1)
