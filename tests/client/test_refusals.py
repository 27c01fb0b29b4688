"""What can't be stored is refused clearly, and nothing is stored."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, cast

import pydantic
import pytest

from reproq.client import (
    Client,
    ClientError,
    ConnectionLost,
    EnqueueRefused,
)
from reproq.client.payload import encode
from tests.client.database_view import TYPE, count
from tests.conftest import Database


class Invoice(pydantic.BaseModel):
    number: int
    due: datetime


@dataclasses.dataclass
class Order:
    number: int
    at: datetime


MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
UUID = uuid.UUID(int=7)


@pytest.mark.parametrize(
    ("payload", "means"),
    [
        ({"text": 'Grüße "\\u0000" \\ 🐘 null', "none": None}, {"text": 'Grüße "\\u0000" \\ 🐘 null', "none": None}),
        (
            {"big": 2**64 + 1, "small": -(2**70), "float": -1.5e-7},
            {"big": 2**64 + 1, "small": -(2**70), "float": -1.5e-7},
        ),
        ({"big": 2**80, "at": MOMENT, "id": UUID}, {"big": 2**80, "at": "2026-01-02T00:00:00+00:00", "id": str(UUID)}),
        ({"thousand": int("7" * 1000)}, {"thousand": int("7" * 1000)}),
        ({"tuple": (1, 2), "nested": [{"a": [None, True]}]}, {"tuple": [1, 2], "nested": [{"a": [None, True]}]}),
        (Invoice(number=1, due=MOMENT), {"number": 1, "due": "2026-01-02T00:00:00Z"}),
        (Order(1, MOMENT), {"number": 1, "at": "2026-01-02T00:00:00+00:00"}),
    ],
)
def test_what_json_can_hold_arrives_unchanged(client: Client, database: Database, payload: Any, means: Any) -> None:
    ((text,),) = database.execute(
        "select payload_json::text from queues.task_runs where id = %s", client.enqueue(TYPE, payload)
    )
    assert json.loads(text) == means


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"a": [1.0, float("nan")]}, r"payload\.a\[1\]: nan"),
        ({"a": float("-inf"), "b": None}, r"payload\.a: -inf"),
        ({"a": 2**80, "b": float("nan")}, r"payload\.b: nan"),
        ({"a": {"b": "x\0y"}}, r"payload\.a\.b: has a NUL"),
        ({"x\0y": 1}, r"a key.*NUL"),
        ({"a": "\ud800"}, r"payload\.a: has a lone surrogate"),
        ({"\ud800": 1}, "lone surrogate"),
        ({1: 2}, "the key 1 isn't a text"),
        ({"a": {None: 2}}, r"payload\.a: the key None"),
        ({"a": {1, 2}}, "set"),
        ({"a": b"x"}, "bytes"),
        ({"a": object()}, "object"),
        ([1], "must be an object, not list"),
        ("text", "must be an object, not str"),
        (7, "must be an object, not int"),
        (2**80, "must be an object, not int"),
        ({"a": int("7" * 1001)}, "1000 digits"),
        ({"a": 10**5000}, r"payload\.a: a number has at most 1000 digits"),
        (nested(65), "64"),
        (nested(300), "deep"),
        (nested(100_000), "deep"),
        ({"a": "x" * 1_100_000}, "(?i)bytes|MiB|large"),
    ],
)
def test_what_json_or_the_database_cannot_hold_is_refused_clearly_and_nothing_is_stored(
    refused: Client, untouched: Database, payload: Any, message: str
) -> None:
    with pytest.raises(EnqueueRefused, match=message) as caught:
        refused.enqueue(TYPE, payload)
    assert caught.value.sqlstate == "RQ002"
    assert "\n" not in str(caught.value)
    str(caught.value).encode()
    assert count(untouched) == 0


def test_a_payload_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    with pytest.raises(EnqueueRefused, match="deep"):
        encode(loop)


@pytest.mark.parametrize(
    ("options", "state", "message"),
    [
        ({"scheduled_at": datetime(2040, 1, 1)}, "RQ003", "no time zone"),
        ({"scheduled_at": "tomorrow"}, "RQ003", "must be a datetime"),
        ({"scheduled_at": MOMENT, "delay": 1}, "RQ003", "contradict"),
        ({"delay": -1}, "RQ003", "0 to ten billion"),
        ({"delay": float("nan")}, "RQ003", "0 to ten billion"),
        ({"delay": True}, "RQ003", "seconds"),
        ({"timeout": "30s"}, "RQ003", "seconds"),
        ({"priority": 2**31}, "RQ003", "32 bits"),
        ({"priority": 1_000_001}, "RQ003", "priority"),
        ({"priority": 1.5}, "RQ003", "whole number"),
        ({"max_attempts": 0}, "RQ003", "attempts"),
        ({"queue_name": "a\0"}, "RQ003", "NUL"),
        ({"queue_name": 7}, "RQ003", "text"),
        ({"idempotency_key": "\ud800"}, "RQ003", "surrogate"),
        ({"timeout": -1}, "RQ003", "0 to ten billion"),
        ({"timeout": 0}, "RQ003", "longer than nothing and at most 366 days"),
        ({"timeout": 367 * 86400}, "RQ003", "longer than nothing and at most 366 days"),
        ({"after_policy": "maybe"}, "RQ003", "after_policy 'maybe' is unknown"),
        ({"unique_among": "everyone"}, "RQ003", "(?i)unique"),
        ({"after": [0]}, "RQ003", "above 0"),
        ({"after": "12"}, "RQ003", "list of task ids"),
    ],
)
def test_a_bad_argument_is_refused_clearly_and_nothing_is_stored(
    refused: Client, untouched: Database, options: Any, state: str, message: str
) -> None:
    with pytest.raises(EnqueueRefused, match=message) as caught:
        refused.enqueue(TYPE, {}, **options)
    assert caught.value.sqlstate == state
    assert count(untouched) == 0


@pytest.mark.parametrize("name", ["", "a b", "_x", "x" * 201, "naïve", "a\0", "x\n", None, 7])
def test_a_bad_type_name_is_refused(refused: Client, name: Any) -> None:
    with pytest.raises(EnqueueRefused, match="isn't a task type"):
        refused.enqueue(name, {})


def test_an_unknown_argument_is_named_with_the_nearest(client: Client) -> None:
    with pytest.raises(TypeError, match="no argument 'priorty'; did you mean priority"):
        client.enqueue(TYPE, {}, **cast("Any", {"priorty": 1}))
    with pytest.raises(TypeError, match="did you mean idempotency_keys"):
        client.enqueue_many(TYPE, [{}], **cast("Any", {"idempotency_key": "a"}))


def test_a_payload_may_not_name_a_function_that_the_login_may_not_run(client: Client) -> None:
    with pytest.raises(EnqueueRefused, match=r"pg_sleep") as caught:
        client.enqueue("db_function", {"task_type": "db_function", "db_function": "pg_catalog.pg_sleep"})
    assert caught.value.sqlstate == "RQ004"


def test_a_login_without_the_role_is_told_what_to_grant(database: Database) -> None:
    with Client(database.worker_dsn) as worker, pytest.raises(EnqueueRefused, match="GRANT reproq_app"):
        worker.enqueue(TYPE, {})


def test_a_database_without_the_schema_is_told_to_migrate(new_database: Callable[..., Database]) -> None:
    with Client(new_database().dsn) as client, pytest.raises(ClientError, match="reproq migrate"):
        client.enqueue(TYPE, {})


def test_an_unreachable_database_says_that_nothing_was_stored() -> None:
    with pytest.raises(ConnectionLost, match="nothing was stored"):
        Client("postgresql://u:canary@127.0.0.1:1/x").enqueue(TYPE, {})


def test_no_address_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPROQ_DATABASE_URL", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    with pytest.raises(ClientError, match="REPROQ_DATABASE_URL"):
        Client()


class Login(pydantic.BaseModel):
    user: str
    password: pydantic.SecretStr


class Shown(Login):
    @pydantic.field_serializer("password")
    def _as_it_is(self, password: pydantic.SecretStr) -> str:
        return password.get_secret_value()


def test_a_secret_is_refused_rather_than_stored_as_asterisks(refused: Client) -> None:
    for payload in (Login(user="ann", password=pydantic.SecretStr("canary")), {"users": ["**********"]}):
        if isinstance(payload, dict):
            assert json.loads(encode(payload)) == payload
            continue
        with pytest.raises(EnqueueRefused, match="asterisks") as caught:
            refused.enqueue(TYPE, payload)
        assert "canary" not in str(caught.value)
    assert json.loads(encode(Shown(user="ann", password=pydantic.SecretStr("x"))))["password"] == "x"


def test_a_model_is_stored_under_the_names_by_which_it_can_be_read_again() -> None:
    class Aliased(pydantic.BaseModel):
        number: int = pydantic.Field(alias="invoice-number")

    assert Aliased.model_validate_json(encode(Aliased(**{"invoice-number": 7}))).number == 7
