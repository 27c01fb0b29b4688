"""jsonb accepts what kills Python's parser: the door has its own limits, and says which one was hit."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from psycopg.types.json import Jsonb

from .conftest import Queue, refused

MIB = 1 << 20


def raw(text: str) -> Jsonb:
    return Jsonb(None, dumps=lambda _: text)


def nested(depth: int, open_: str = '{"a":', close: str = "}") -> str:
    return open_ * depth + "1" + close * depth


def mixed(depth: int) -> str:
    """An object with arrays in it, of that depth."""
    return '{"a":' + nested(depth - 1, "[", "]") + "}"


def sized(size: int) -> str:
    return json.dumps({"a": "x" * (size - len('{"a": ""}'))})


def digits(number: str) -> str:
    return '{"a": [1, {"b": ' + number + "}]}"


FINE = {
    "1 MiB": sized(MIB),
    "64 objects deep": nested(64),
    "64 deep with arrays": mixed(64),
    "1000 digits": digits("9" * 1000),
    "1000 digits around a point": digits("9" * 500 + "." + "9" * 500),
    "a negative number of 1000 digits": digits("-" + "9" * 1000),
    "long digits in a string": json.dumps({"a": "9" * 5000}),
    "long digits in a key": json.dumps({"9" * 5000: 1}),
    "braces in a string": json.dumps({"a": "{[" * 5000}),
    "many objects side by side": json.dumps({"a": [{} for _ in range(5000)]}),
}
TOO_MUCH = {
    "1 MiB and a byte": (sized(MIB + 1), "is 1048577 bytes long, the limit is 1048576"),
    "1 MiB of characters that take two bytes": (sized(MIB).replace("x", "é"), "the limit is 1048576"),
    "65 objects deep": (nested(65), "nested deeper than 64"),
    "65 deep with arrays": (mixed(65), "nested deeper than 64"),
    "5000 deep": (mixed(5000), "nested deeper than 64"),
    "an empty object 65 deep": ('{"a":' * 64 + "{}" + "}" * 64, "nested deeper than 64"),
    "65 deep behind a wide array": ('{"w": [' + "1," * 5000 + "1], " + nested(65)[1:], "nested deeper than 64"),
    "1001 digits": (digits("9" * 1001), "a number of more than 1000 digits"),
    "1001 digits around a point": (digits("9" * 500 + "." + "9" * 501), "a number of more than 1000 digits"),
    "an exponent of 1001": (digits("1e1001"), "a number of more than 1000 digits"),
    "a small exponent": (digits("1e-1001"), "a number of more than 1000 digits"),
}
WAYS: dict[str, Callable[[Queue, Jsonb], object]] = {
    "one": lambda q, payload: q.call("enqueue", task_type="t", payload=payload),
    "once": lambda q, payload: q.call("enqueue_once", task_type="t", payload=payload),
    "many": lambda q, payload: q.call("enqueue_many", task_type="t", payloads=[Jsonb({}), payload]),
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_within_the_limits_is_stored(q: Queue, name: str) -> None:
    (row,) = q.call("enqueue", task_type="t", payload=raw(FINE[name]))
    assert q.value(
        "select payload_json::text = (%s::jsonb)::text from queues.task_runs where id = %s", FINE[name], row["enqueue"]
    )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TOO_MUCH)
def test_what_is_beyond_a_limit_is_refused_with_its_name(q: Queue, name: str, way: str) -> None:
    text, words = TOO_MUCH[name]
    code, message, hint = refused(lambda: WAYS[way](q, raw(text)))
    assert code == "RQ002"
    assert words in message
    assert hint
    assert q.count() == 0


def test_the_limits_are_settings(q: Queue) -> None:
    q.rows("update queues.settings set max_payload_bytes = 50, max_depth = 3, max_digits = 20")
    for good in ('{"a": {"b": {}}}', digits("9" * 20), digits("9" * 10 + "." + "9" * 10)):
        q.call("enqueue", task_type="t", payload=raw(good))
    for bad in (sized(51), '{"a": {"b": [{}]}}', digits("9" * 21), digits("9" * 10 + "." + "9" * 11)):
        assert refused(lambda bad=bad: q.call("enqueue", task_type="t", payload=raw(bad)))[0] == "RQ002"  # type: ignore[misc]


@pytest.mark.parametrize("text", ['{"a": "\\u0000"}', '{"a": NaN}', '{"a": "\\ud800"}', "{", ""])
def test_what_jsonb_refuses_is_stored_by_nobody(q: Queue, text: str) -> None:
    assert refused(lambda: q.call("enqueue", task_type="t", payload=raw(text)))[0].startswith("22")
    assert q.count() == 0
