from __future__ import annotations

import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from reproq import log
from reproq.log import Event

CANARY = 'canary/"pä ss\\word'


@pytest.fixture(autouse=True)
def _restore(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    root, level = logging.getLogger(), log.logger.level
    before = list(root.handlers)
    monkeypatch.setattr(log, "_redactor", log.Redactor())
    monkeypatch.setattr(log, "_fields", {})
    yield
    root.handlers[:] = before
    log.logger.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object_with_a_stable_event_name() -> None:
    stream = io.StringIO()
    log.setup("info", stream)
    log.bind(worker_id="w/1/x")
    log.say(Event.TASK_FAILED, "task 7 failed", logging.WARNING, task_id=7, task_type="shop.pay")
    (line,) = lines(stream)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warning",
        "event": "task_failed",
        "message": "task 7 failed",
        "worker_id": "w/1/x",
        "task_id": 7,
        "task_type": "shop.pay",
    }


def test_lines_of_other_libraries_are_json_too() -> None:
    stream = io.StringIO()
    log.setup("info", stream)
    logging.getLogger("psycopg.pool").warning("pool %s is slow", "a", extra={"size": 3})
    (line,) = lines(stream)
    assert (line["event"], line["logger"], line["message"], line["size"]) == (
        "log",
        "psycopg.pool",
        "pool a is slow",
        3,
    )


def test_a_level_below_the_chosen_one_costs_no_line() -> None:
    stream = io.StringIO()
    log.setup("warning", stream)
    log.say(Event.WOKEN, "awake")
    assert stream.getvalue() == ""


def test_every_event_has_a_name_of_its_own() -> None:
    names = [name for key, name in vars(Event).items() if key.isupper()]
    assert len(names) == len(set(names))
    assert all(key.lower() == name for key, name in vars(Event).items() if key.isupper())


@pytest.mark.parametrize("human", [False, True])
def test_a_known_secret_is_in_no_line_whatever_way_it_came(human: bool) -> None:
    stream = io.StringIO()
    log.setup("info", stream, secrets=[CANARY], human=human)
    log.say(Event.DATABASE_LOST, f"lost {CANARY}", detail={"dsn": [CANARY]})
    log.logger.info("as argument %s and %r", CANARY, CANARY)
    try:
        raise ValueError(f"password {CANARY} is wrong")
    except ValueError:
        log.logger.exception("caught")
    log.logger.warning("escaped", extra={"escaped": json.dumps(CANARY)})
    assert "canary" not in stream.getvalue()
    assert stream.getvalue().count("***") >= 6


@pytest.mark.parametrize("human", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ann:canary@h/db",
        "amqp://:canary@h",
        "host=h password=canary dbname=d",
        "password='ca\\' canary' x",
        "GET /v1/tasks/7?ticket=canary&wait=1",
        "(a password=canary)",
    ],
)
def test_a_password_is_hidden_by_the_look_of_its_place_also_when_nobody_announced_it(text: str, human: bool) -> None:
    stream = io.StringIO()
    log.setup("info", stream, human=human)
    log.say(Event.DATABASE_LOST, text, dsn=text)
    assert "canary" not in stream.getvalue()
    assert human or lines(stream)


def test_what_is_no_password_stays_readable() -> None:
    text = "see https://docs.example.org/a@b and mail ann@example.org, a=b:c@d, http://h:80/x y@z"
    assert log.redact(text) == text


@pytest.mark.parametrize("human", [False, True])
def test_a_payload_appears_only_when_asked_for(human: bool) -> None:
    for payloads in (False, True):
        stream = io.StringIO()
        log.setup("info", stream, payloads=payloads, human=human)
        log.say(Event.WOKEN, "started", payload={"card": "4711"})
        logging.getLogger("other").warning("x", extra={"payload_json": "4711"})
        assert stream.getvalue().count("4711") == (2 if payloads else 0)


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no text")


DEEP: list[Any] = []
for _ in range(2000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "value", [Hostile(), 10**30, "\ud800", float("nan"), DEEP, {1: 2}, {"a", "b"}, b"\xff", object()]
)
@pytest.mark.parametrize("human", [False, True])
def test_no_value_makes_logging_raise_or_loses_the_line(value: object, human: bool) -> None:
    stream = io.StringIO()
    log.setup("info", stream, human=human)
    log.say(Event.INTERNAL_ERROR, "odd", value=value)
    assert "odd" in stream.getvalue()
    assert human or lines(stream)[0]["event"] == "internal_error"


def test_a_broken_stream_is_nobodys_problem(capfd: pytest.CaptureFixture[str]) -> None:
    class Broken(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    logging.getLogger().handlers.clear()
    log.setup("info", Broken())
    log.say(Event.WORKER_STARTED, "started")
    closed = io.StringIO()
    log.setup("info", closed)
    closed.close()
    log.say(Event.WORKER_STARTED, "started")
    log.logger.info("wrong %d", "argument")
    assert capfd.readouterr().err == ""


def test_a_line_on_a_terminal_is_for_people_and_stays_one_line() -> None:
    stream = io.StringIO()
    log.setup("info", stream, human=True)
    log.say(Event.TASK_OUTPUT, "first\nsecond\x1b[2J", task_id=7, nothing=None)
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert "info    first ⏎ second?[2J  task_id=7" in text
    assert "nothing" not in text


def test_a_traceback_on_a_terminal_keeps_its_lines() -> None:
    stream = io.StringIO()
    log.setup("info", stream, human=True)
    log.say(Event.CHILD_BOOT_FAILED, "child app-1 can't start", traceback='File "x"\nKeyError: 1')
    assert stream.getvalue().splitlines()[1:] == ['    File "x"', "    KeyError: 1"]


def test_lines_of_many_threads_do_not_mix() -> None:
    stream = io.StringIO()
    log.setup("info", stream)

    def write() -> None:
        for _ in range(50):
            log.say(Event.WOKEN, "x" * 200)

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lines(stream)) == 400


def test_a_thread_that_dies_is_a_redacted_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    stream = io.StringIO()
    log.setup("info", stream, secrets=["canary-1"])
    log.catch_threads()

    def die() -> None:
        raise ValueError("canary-1 is wrong")

    thread = threading.Thread(target=die, name="heart")
    thread.start()
    thread.join()
    (line,) = lines(stream)
    assert line["event"] == "internal_error"
    assert "thread heart died: ValueError('*** is wrong')" in line["message"]
    assert "in die" in line["traceback"]


def test_a_log_that_nobody_reads_drops_lines_instead_of_holding_up_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_READER_MS", 20)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(writing, "w") as stream:
        log.setup("info", stream, human=False)
        for number in range(2_000):
            log.say(log.Event.WOKEN, "x" * 200, number=number)
        while len(os.read(reading, 1 << 20)) == 1 << 20:
            pass
        log.say(log.Event.WOKEN, "the reader is back")
        lines = [json.loads(line) for line in os.read(reading, 1 << 20).decode().splitlines()]
    os.close(reading)
    assert lines[0]["event"] == "log_dropped"
    assert lines[1]["message"] == "the reader is back"
