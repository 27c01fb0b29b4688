"""The decorator, without any process."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import reproq
from reproq import Context, Fail, Retry, task, tasks


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tasks, "registry", {})
    yield


def test_a_decorated_function_stays_callable_as_itself() -> None:
    @task("double")
    def double(payload: int, ctx: Context) -> int:
        return payload * ctx.attempt

    assert double(4, Context.for_test(attempt=2)) == 8
    assert tasks.registry["double"].function is double


def test_settings_are_kept_in_seconds_and_only_if_given() -> None:
    @task("a", timeout=timedelta(minutes=2), lease=5, backoff_base=0.5, dead_letter_type="a.dead", max_attempts=9)
    def a(payload: Any) -> None: ...

    assert tasks.registry["a"].settings == {
        "timeout": 120.0, "lease": 5.0, "backoff_base": 0.5, "dead_letter_type": "a.dead", "max_attempts": 9,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["a", "9", "billing.invoice_charge.v1", "A:b-C_d", "x" * 200])
def test_good_type_names(name: str) -> None:
    assert tasks.check_type_name(name) == name


@pytest.mark.parametrize("name", ["", ".a", "_a", "a b", "ä", "a\n", "a/b", "x" * 201, "a\0"])
def test_bad_type_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="bad task type"):
        task(name)


def test_a_forgotten_type_is_told_how_to_write_it() -> None:
    with pytest.raises(TypeError, match=r'write @task\("some.type"\)'):

        @task  # type: ignore[arg-type]
        def a(payload: Any) -> None: ...


@pytest.mark.parametrize(
    "settings",
    [{"max_attempts": 0}, {"max_attempts": True}, {"max_attempts": 1.5}, {"timeout": 0}, {"timeout": -1},
     {"timeout": "30s"}, {"lease": float("nan")}, {"backoff_cap": True}, {"dead_letter_type": "bad name"},
     {"dead_letter_type": "a"}, {"dead_letter_type": "email"}],
)  # fmt: skip
def test_bad_settings_are_refused_when_they_are_written(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"max_attempts|number of seconds|bad task type|name another type"):
        task("a", **settings)


def test_a_type_of_two_functions_is_refused_but_a_reload_isnt() -> None:
    def make() -> None:
        @task("a")
        def same(payload: Any) -> None: ...

    make()
    make()
    with pytest.raises(ValueError, match="registered twice"):

        @task("a")
        def other(payload: Any) -> None: ...


def _none() -> None: ...
def _three(a: Any, b: Any, c: Any) -> None: ...
def _keyword(payload: Any, *, ctx: Any) -> None: ...


@pytest.mark.parametrize("function", [_none, _three, _keyword])
def test_a_function_that_couldnt_be_called_is_refused(function: Any) -> None:
    with pytest.raises(TypeError, match=r"a task takes \(payload\) or \(payload, ctx\)"):
        task("a")(function)


def _wrap(function: Any) -> Any:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapped


class _Callable:
    def __call__(self, payload: Any, ctx: Any) -> None: ...
    def method(self, payload: Any) -> None: ...
    async def asynchronous(self, payload: Any, ctx: Any) -> None: ...


def _plain(payload: Any) -> None: ...
def _with(payload: Any, ctx: Any) -> None: ...
def _any_name(payload: Any, c: Any) -> None: ...
def _optional(payload: Any, ctx: Any = None) -> None: ...
def _other_default(payload: Any, colour: str = "red") -> None: ...


@pytest.mark.parametrize(
    ("function", "takes_context", "is_async"),
    [
        (_plain, False, False), (_with, True, False), (_any_name, True, False), (_optional, True, False),
        (_other_default, False, False), (_wrap(_with), True, False), (_wrap(_plain), False, False),
        (_Callable(), True, False), (_Callable().method, False, False), (_Callable().asynchronous, True, True),
        (functools.partial(_three, 1), True, False),
    ],
)  # fmt: skip
def test_how_a_function_wants_to_be_called_is_seen(function: Any, takes_context: bool, is_async: bool) -> None:
    seen = tasks.Task("a", function, {})
    assert (seen.takes_context, seen.is_async) == (takes_context, is_async)


def test_retry_and_snooze_refuse_nonsense() -> None:
    assert Retry(in_=0).in_s == 0
    for bad in (-1, "5s", float("inf")):
        with pytest.raises(ValueError, match="in_ is a number of seconds"):
            Retry(in_=bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="seconds is a number"):
        Context.for_test().snooze(-1)


def test_a_context_without_time_out_has_no_deadline() -> None:
    ctx = Context.for_test()
    assert (ctx.remaining(), ctx.deadline, ctx.cancelled()) == (None, None, False)


def test_the_package_exports_its_names_and_no_others() -> None:
    assert (reproq.task, reproq.Fail) == (tasks.task, Fail)
    assert {"task", "Client", "Context", "Retry", "Fail"} <= set(dir(reproq))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = reproq.nonsense


def test_importing_the_package_for_tasks_loads_no_database_driver() -> None:
    script = "import sys, reproq; reproq.task; print(sorted({'psycopg', 'pydantic', 'reproq.db'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tasks.__file__[:-16]
    )
    assert done.stdout == "[]\n"


def test_what_is_later_than_a_year_from_now_is_refused_where_it_is_written() -> None:
    for late in (367 * 86400, 1e9):
        with pytest.raises(ValueError, match="31622400"):
            Retry("x", in_=late)
        with pytest.raises(ValueError, match="31622400"):
            Context.for_test().snooze(late)


@pytest.mark.parametrize("name", ["db_function", "email", "sms"])
def test_a_type_of_reproqs_own_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="never reaches an app"):
        task(name)


def test_a_generator_is_refused() -> None:
    def body(payload: Any) -> Any:
        yield payload

    async def slowly(payload: Any) -> Any:
        yield payload

    for function in (body, slowly):
        with pytest.raises(TypeError, match="generator"):
            task("t")(function)
