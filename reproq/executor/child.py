"""The Python child: `python -m reproq.executor.child MODULE…` imports the modules, says which types they registered,
then runs one task per line until it is told to stop or the line ends.

The path of a task is the system's hottest Python: what can be prepared is bound at boot, and nothing is imported,
looked up in the environment or written twice per task. A task's own code may do anything to this process; the runner
takes every way of ending for an answer.
"""

from __future__ import annotations

import os
import sys

from reproq.executor.child_wire import Wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Order = dict[str, Any]
    Handler = Callable[[Order], Any]

TEMPLATE = "--template"
_MEASURED_NS = 1_000_000  # a success that took less doesn't carry its time and memory


def main() -> None:
    import _signal  # type: ignore[import-not-found]  # `signal` would import enum: 3 ms
    import faulthandler

    from reproq.executor import kernel

    # Before any code of the user's: what runs with our uid may not read our environment or memory, nor take our
    # descriptors. The exec has made us open again; a fork of a template stays closed.
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # Ctrl-C is the runner's to handle
    wire = Wire.take_over()
    faulthandler.enable()
    is_template = sys.argv[1:2] == [TEMPLATE]
    try:
        handlers, ready = _boot(sys.argv[2:] if is_template else sys.argv[1:], wire)
    except BaseException as error:  # noqa: BLE001  (a task module may raise anything)
        _tell_boot_failure(error)
        sys.exit(1)
    try:
        if is_template:
            _serve_as_template(wire, handlers, ready)
        else:
            wire.send(_line(ready))
            _serve(wire, handlers)
    except BrokenPipeError:  # the runner is gone; the guard is about to say so
        os._exit(1)


def _serve_as_template(wire: Wire, handlers: dict[str, Handler], ready: dict[str, Any]) -> None:
    from reproq.executor import template

    why_not = template.unfit(wire)
    wire.send(_line(ready | {"template": why_not or True}))
    if why_not:
        wire.next()
    elif template.fork_on_request(wire, _line(ready)):
        _serve(wire, handlers)
        if len(os.listdir("/proc/self/task")) == 1:  # else a thread of the task goes on, and is waited for
            template.leave()


def _line(ready: dict[str, Any]) -> bytes:
    from reproq.executor.envelopes import to_json

    return f"{to_json(ready)}\n".encode()


def _boot(modules: list[str], wire: Wire) -> tuple[dict[str, Handler], dict[str, Any]]:
    from importlib import import_module

    from reproq.executor.handlers import bind
    from reproq.tasks import registry

    for name in modules:
        _check_module_name(name)
        import_module(name)
    handlers = {name: bind(task, wire) for name, task in registry.items()}
    ready: dict[str, Any] = {"v": 1, "types": {name: task.settings for name, task in registry.items()}}
    if "opentelemetry" in sys.modules:
        from reproq.executor import tracing

        if tracing.is_set_up():
            return tracing.traced(handlers), ready | {"traces": True}
    return handlers, ready


def _check_module_name(name: str) -> None:
    if name.endswith(".py") or "/" in name:
        plain = name.removesuffix(".py").strip("./").replace("/", ".")
        raise ImportError(f"name a module, not a file: {plain!r} instead of {name!r}")


def _tell_boot_failure(error: BaseException) -> None:
    import traceback

    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_globals):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    if isinstance(error, SystemExit):
        text += "a task module must not exit while it is imported (is there a `if __name__ == '__main__'` missing?)\n"
    sys.stderr.write(text + _withheld_hint(text))
    sys.stderr.flush()


def _is_ours(names: dict[str, Any]) -> bool:
    package = str(names.get("__package__") or names.get("__name__"))
    return package in ("reproq.executor", "importlib", "importlib._bootstrap", "_frozen_importlib")


def _withheld_hint(text: str) -> str:
    names = [name for name in os.environ.get("REPROQ_WITHHELD", "").split(",") if name and name in text]
    if not names:
        return ""
    flags = " ".join(f"--child-env {name}" for name in names)
    return (
        f"{', '.join(names)}: the worker keeps this variable from its children; start it with {flags} to hand it over\n"
    )


def _serve(wire: Wire, handlers: dict[str, Handler]) -> None:
    """One turn per task: every microsecond here is paid per task."""
    from time import monotonic_ns, process_time

    from reproq.executor.envelopes import failure, no_handler, noisy, success
    from reproq.executor.output import Output
    from reproq.executor.title import Title
    from reproq.executor.usage import Usage

    output, title, usage = Output(wire.log), Title(), Usage()
    while True:
        if not wire.pending:
            title.idle()
        order = wire.next()
        if order is None:
            return
        title.busy(order)
        began, cpu = monotonic_ns(), process_time()
        try:
            result = handlers.get(order["task_type"], no_handler)(order)
            took = monotonic_ns() - began
            line = success(order, result, usage.of(took, cpu) if took > _MEASURED_NS else "")
        except BaseException as error:  # noqa: BLE001  (sys.exit() in a task is its failure, not our end)
            line = failure(order, error, usage.of(monotonic_ns() - began, cpu))
        output.flush()
        if not wire.wait_until_log_is_read():
            line = noisy(line)
        wire.send(line)
        wire.forget_cancels()


if __name__ == "__main__":
    main()
