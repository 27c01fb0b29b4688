"""`reproq completion`: the shell's script, and names from the database while somebody types.

Whoever presses TAB waits: an answer that doesn't come at once is none, and nothing that goes wrong is ever said.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem, get_completion_class

if TYPE_CHECKING:
    from reproq.db.line import Call

PATIENCE_S = 0.7  # psycopg's import takes a part of it
_PATIENCE = "_REPROQ_COMPLETE_PATIENCE"  # another one, in seconds, where a machine is slow
_HOMES = {
    "bash": "reproq completion bash > ~/.local/share/bash-completion/completions/reproq",
    "zsh": "reproq completion zsh > ~/.zfunc/_reproq  (with fpath+=~/.zfunc before compinit in ~/.zshrc)",
    "fish": "reproq completion fish > ~/.config/fish/completions/reproq.fish",
}
_FIRST_LINE_STAYS = "#compdef"  # zsh reads it from there

# What a parameter of this name holds, wherever it stands; and what NAME means in a group of commands.
_KINDS = {
    "queue": "queue", "queue_name": "queue", "queues": "queue",
    "task_type": "type", "prefix": "type", "prefixes": "type",
}  # fmt: skip
_NAMED = {"queues": "queue", "schedules": "schedule"}

Complete = Callable[[click.Context, str], list[CompletionItem]]


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_HOMES)))
def command(shell: str) -> None:
    """Print a script with which SHELL completes commands, flags, and names of queues, types and schedules.

    \b
    For this shell only:     source <(reproq completion bash)
    For every bash to come:
      reproq completion bash > ~/.local/share/bash-completion/completions/reproq
    For zsh, with fpath+=~/.zfunc before compinit in ~/.zshrc:
      reproq completion zsh > ~/.zfunc/_reproq
    For fish:
      reproq completion fish > ~/.config/fish/completions/reproq.fish

    \b
    Names come from the database of --database-url, environment or reproq.toml;
    one that doesn't answer within a second is not waited for.
    """
    click.echo(script(shell))


def script(shell: str) -> str:
    from reproq.cli.commands import reproq

    maker = get_completion_class(shell)
    assert maker is not None
    text = maker(reproq, {}, "reproq", "_REPROQ_COMPLETE").source().strip()
    note = f"# Completion of reproq for {shell}. To have it always: {_HOMES[shell]}"
    if not text.startswith(_FIRST_LINE_STAYS):
        return f"{note}\n{text}"
    first, _, rest = text.partition("\n")
    return f"{first}\n{note}\n{rest}"


def teach(command: click.Command, group: str = "") -> None:
    """Let parameters that name a queue, type or schedule complete from the database."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            teach(each, command.name or "")
    for param in command.params:
        if param.name in _KINDS or (param.name == "name" and group in _NAMED):
            setattr(param, "shell_complete", _completing(param, group))  # noqa: B010 - mypy forbids to replace a method


def _completing(param: click.Parameter, group: str) -> Complete:
    def complete(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        kind = _KINDS.get(param.name or "") or _named_kind(ctx, group)
        patience = float(os.environ.get(_PATIENCE) or PATIENCE_S)
        return [CompletionItem(name) for name in _within(patience, lambda: _names(ctx, kind, incomplete))]

    return complete


def _named_kind(ctx: click.Context, group: str) -> str:
    """What NAME means: `queues pause --type` and `queues limit type` are about types."""
    scope = str(ctx.params.get("scope") or _NAMED[group])
    return "type" if ctx.params.get("is_type") else scope


def _within(seconds: float, ask: Callable[[], list[str]]) -> list[str]:
    """What it answers in time. A thread that doesn't is left behind: the program ends now."""
    found: list[str] = []

    def run() -> None:
        try:
            found.extend(ask())
        except Exception:  # noqa: BLE001, S110 - no line of an error belongs on a prompt
            pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return list(found)


def _names(ctx: click.Context, kind: str, start: str) -> list[str]:
    from reproq.cli.options import database_address
    from reproq.queue.overview import names

    given: dict[str, Any] = {"database_url": ctx.params.get("database_url"), "config": ctx.params.get("config")}
    return _asked(database_address(given), names(kind, start))


def _asked(address: str, call: Call) -> list[str]:
    import psycopg

    from reproq.db.connect import connect
    from reproq.db.migration.roles import as_owner_if_possible
    from reproq.queue import run

    with connect(address, name="reproq completion", timeout_s=1) as connection:
        try:
            found: list[str] = run(connection, call)
        except psycopg.errors.InsufficientPrivilege:
            with as_owner_if_possible(connection):
                found = run(connection, call)
    return found
