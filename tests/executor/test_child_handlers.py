"""The kinds of functions that can be tasks: sync, async, with and without context, with pydantic models."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from tests.executor.driver import ChildDriver

App = Callable[..., ChildDriver]

ASYNC = """
    import asyncio
    client = {}
    @task("async")
    async def run(payload, ctx):
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        return [payload, ctx.attempt, client.setdefault("loop", loop) is loop]
    @task("raises")
    async def raises(payload): raise Retry("later", in_=1)
    @task("exits")
    async def exits(payload): raise SystemExit(1)
    ended = []
    @task("leaves")
    async def leaves(payload):
        async def endless():
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)
        asyncio.create_task(endless())
        await asyncio.sleep(0)
    @task("ended")
    async def was_ended(payload): return [ended, len(asyncio.all_tasks())]
"""


def test_async_tasks_share_one_event_loop(app: App) -> None:
    child = app(ASYNC)
    for number in range(3):
        assert child.run("async", {"n": number})["payload"] == [{"n": number}, 1, True]


def test_an_async_task_may_raise_what_a_sync_one_may(app: App) -> None:
    child = app(ASYNC)
    envelope = child.run("raises")
    assert (envelope["error"], envelope["retry_in_s"]) == ("later", 1.0)
    assert envelope["error_detail"]["traceback"].count("File ") == 1
    assert child.run("exits")["error"] == "SystemExit: 1"
    assert child.run("async")["success"]


def test_what_an_async_task_started_and_didnt_await_ends_with_it(app: App) -> None:
    child = app(ASYNC)
    assert child.run("leaves")["success"]
    assert child.run("ended")["payload"] == [[True], 1]


MODELS = """
    from pydantic import BaseModel, field_validator
    class Invoice(BaseModel):
        number: int
        secret: str = ""
        @field_validator("secret")
        @classmethod
        def broken(cls, value):
            if value == "bug":
                raise KeyError("a bug in a validator")
            return value
    @task("model")
    def model(payload: Invoice) -> Invoice: return Invoice(number=payload.number + 1)
    @task("list")
    def several(payload: "Invoice", ctx): return {"invoices": [payload, payload]}
    @task("async")
    async def asynchronous(payload: Invoice): return payload.number
    @task("inner")
    def inner(payload): return Invoice(number="no number")
    @task("builtin")
    def builtin(payload: dict) -> None: return payload
"""


def test_a_payload_is_validated_into_the_annotated_model_and_a_model_is_a_result(app: App) -> None:
    child = app(MODELS)
    assert child.run("model", {"number": "7"})["payload"] == {"number": 8, "secret": ""}
    assert child.run("list", {"number": 7})["payload"] == {"invoices": [{"number": 7, "secret": ""}] * 2}
    assert child.run("async", {"number": 7})["payload"] == 7
    assert child.run("builtin", {"number": 7})["payload"] == {"number": 7}


def test_an_invalid_payload_is_a_validation_failure_that_names_the_fields_and_no_values(app: App) -> None:
    envelope = app(MODELS).run("model", {"number": "hunter2", "secret": []})
    message = envelope["validation_failure_message"]
    assert message.startswith("number: Input should be a valid integer")
    assert "; secret: Input should be a valid string" in message
    assert "hunter2" not in message
    assert "error" not in envelope


@pytest.mark.parametrize(("kind", "payload"), [("inner", {}), ("model", {"number": 1, "secret": "bug"})])
def test_only_the_payload_itself_can_fail_validation(app: App, kind: str, payload: dict[str, object]) -> None:
    envelope = app(MODELS).run(kind, payload)
    assert envelope["error"].startswith(("ValidationError: ", "pydantic", "KeyError: "))
    assert "validation_failure_message" not in envelope


def test_annotations_that_are_text_are_understood(app: App) -> None:
    child = app(
        "if True:\n    from pydantic import BaseModel\n"
        "@task('later')\ndef later(payload: 'Later'): return payload.n\n"
        "@task('unknown')\ndef unknown(payload: 'ForTypeCheckersOnly'): return payload\n"
        "class Later(BaseModel):\n    n: int\n"
    )
    assert child.run("later", {"n": 3})["payload"] == 3
    assert child.run("unknown", {"n": 3})["payload"] == {"n": 3}


def test_a_strict_model_takes_what_json_has_instead_of_dates_and_enums(app: App) -> None:
    child = app(
        "if True:\n    import datetime, decimal, enum, uuid\n    from typing import Annotated, Optional\n"
        "    from pydantic import BaseModel, ConfigDict, Field\n"
        "class Colour(enum.Enum):\n    RED = 'red'\n"
        "class Strict(BaseModel):\n    model_config = ConfigDict(strict=True)\n    when: datetime.datetime\n"
        "    id: uuid.UUID\n    colour: Colour\n    number: int = Field(alias='invoice-number')\n"
        "@task('plain')\ndef plain(payload: Strict): return [type(payload).__name__, payload.colour.value]\n"
        "@task('optional')\ndef optional(payload: Optional[Strict]): return type(payload).__name__\n"
        "@task('bar')\ndef bar(payload: 'Strict | None'): return type(payload).__name__\n"
        "@task('annotated')\ndef annotated(payload: Annotated[Strict, 'x']): return type(payload).__name__\n"
    )
    payload = {"when": "2031-01-02T03:04:05Z", "id": str(UUID(int=7)), "colour": "red", "invoice-number": 1}
    assert child.run("plain", payload)["payload"] == ["Strict", "red"]
    assert [child.run(name, payload)["payload"] for name in ("optional", "bar", "annotated")] == ["Strict"] * 3
    assert "when" in child.run("plain", {**payload, "when": 5.5})["validation_failure_message"]
