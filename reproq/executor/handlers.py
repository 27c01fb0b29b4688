"""From a registered task to one callable of the order: what can be decided once is decided here, at boot."""

from __future__ import annotations

from reproq.executor.envelopes import InvalidPayload, to_json
from reproq.tasks import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from reproq.executor.child_wire import Wire
    from reproq.tasks import Task

    Order = dict[str, Any]
    Handler = Callable[[Order], Any]


def bind(task: Task, wire: Wire) -> Handler:
    function = _synchronous(task.function) if task.is_async else task.function
    model = task.model()
    if model is not None:
        return _with_model(function, model, task.takes_context, wire)
    if task.takes_context:
        return lambda order: function(order["payload"], Context(order, wire))
    return lambda order: function(order["payload"])


def _with_model(function: Callable[..., Any], model: Any, takes_context: bool, wire: Wire) -> Handler:
    def run(order: Order) -> Any:
        payload = _validated(model, order["payload"])
        return function(payload, Context(order, wire)) if takes_context else function(payload)

    return run


def _validated(model: Any, payload: Any) -> Any:
    """A ValidationError raised later, by the task itself, is a failure like any other."""
    try:
        return model.model_validate_json(to_json(payload))  # strictly or not, it comes from JSON
    except ValueError as error:
        details = getattr(error, "errors", None)
        if details is None or type(error).__name__ != "ValidationError":
            raise
        raise InvalidPayload(_complaints(details)) from None


def _complaints(details: Any) -> str:
    """Without the values: they may be secrets."""
    found = details(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'payload'}: {each['msg']}" for each in found)


_runner: Any = None


def _synchronous(function: Callable[..., Any]) -> Callable[..., Any]:
    """All async tasks of a child share one event loop, so that their clients and pools may outlive a task."""
    import asyncio
    from contextvars import copy_context

    global _runner
    if _runner is None:
        _runner = asyncio.Runner()
    runner = _runner

    def run(*arguments: Any) -> Any:
        loop = runner.get_loop()
        before = asyncio.all_tasks(loop)
        try:
            return runner.run(function(*arguments), context=copy_context())  # the task's, not the runner's first
        finally:
            left = asyncio.all_tasks(loop) - before
            if left:
                runner.run(_cancel(left))

    async def _cancel(left: set[asyncio.Task[Any]]) -> None:
        """What the task started and didn't wait for ends with it, as with asyncio.run()."""
        for each in left:
            each.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    return run
