"""`reproq tasks cancel | delete | replay`: orders for tasks by their ids; cancel takes a filter too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import click

from reproq.cli import chosen
from reproq.cli.options import database_address, settings_options
from reproq.cli.run import CommandFailed
from reproq.cli.sheets import say
from reproq.client import Client, EnqueueRefused, UnknownTask

IDS = click.argument("ids", nargs=-1, required=True, type=int, metavar="ID...")
EACH_AS_JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
SOME_IDS = click.argument("ids", nargs=-1, type=int, metavar="[ID...]")


@click.command("cancel")
@SOME_IDS
@chosen.filters
@click.option("--reason", default="", metavar="TEXT", help="Stored with the task.")
def cancel(ids: tuple[int, ...], reason: str, **wish: Any) -> None:
    """Cancel tasks; one that runs is asked to stop, then stopped (SIGTERM, then SIGKILL).

    By ids, or by a filter: then it says how many it would be and asks. What belongs to a business process is left
    alone; cancel the process.

    \b
    reproq tasks cancel 7 8 9 --reason "customer left"
    reproq tasks cancel --type shop.newsletter --queue bulk --dry-run
    reproq tasks cancel --type shop.news --older-than 2h --yes --reason "late"
    """
    from reproq.queue import many

    if by_filter(ids, wish):
        chosen.carry_out(
            "cancel", wish, lambda fits, after, upto, most: many.cancel_many(fits, reason, after, upto, most)
        )
        return
    with client_of(wish) as client:
        each(ids, lambda task_id: client.cancel(task_id, reason), ["cancelled", "stopping"], wish["as_json"])


@click.command("delete")
@IDS
@settings_options("database_url")
@click.option("--reason", required=True, metavar="TEXT", help="Stored with the task.")
@EACH_AS_JSON
def delete(ids: tuple[int, ...], reason: str, as_json: bool, **flags: Any) -> None:
    """Soft-delete tasks: nobody runs them any more, and their idempotency keys are free.

    One that runs may finish. The row stays, with the reason, until retention takes it.

    \b
    reproq tasks delete 7 --reason "entered twice"
    """
    with client_of(flags) as client:
        each(ids, partial(client.delete, reason=reason), ["deleted"], as_json)


@click.command("replay")
@IDS
@settings_options("database_url")
@EACH_AS_JSON
def replay(ids: tuple[int, ...], as_json: bool, **flags: Any) -> None:
    """Open tasks that are over once more: the same task, with more attempts. Many: `reproq dead-letter replay`.

    \b
    reproq tasks replay 7
    """
    with client_of(flags) as client:
        each(ids, client.replay, ["replayed"], as_json)


def client_of(flags: dict[str, Any]) -> Client:
    return Client(database_address({name: flags[name] for name in ("database_url", "config")}), name="reproq tasks")


def by_filter(ids: tuple[int, ...], wish: dict[str, Any]) -> bool:
    """Whether a filter chooses and not the ids: one of the two, and not everything by an oversight."""
    if ids and (chosen.is_given(wish) or wish["dry_run"]):
        raise click.UsageError("give ids or a filter, not both; --dry-run goes with a filter")
    if not ids and not chosen.is_given(wish):
        raise click.UsageError("give ids, or a filter such as --type, --queue, --older-than or --limit")
    return not ids


def each(ids: Iterable[int], act: Callable[[int], str], good: list[str], as_json: bool) -> None:
    """One answer a line, all are tried; status 1 when one of them couldn't be done."""
    bad = 0
    refusal: EnqueueRefused | None = None
    for task_id in ids:
        try:
            answer = act(task_id)
        except UnknownTask:
            answer = "unknown"
        except EnqueueRefused as refused:
            if refused.sqlstate not in ("RQ004", "RQ006"):  # not this task's fault: the others would get the same
                raise
            answer, refusal = "refused", refused
        say(answer if as_json else f"{task_id} {answer}", as_json, id=task_id)
        bad += answer not in good
    if refusal is not None:
        raise refusal
    if bad:
        raise CommandFailed(f"{bad} of the tasks couldn't be changed; see the answers above")
