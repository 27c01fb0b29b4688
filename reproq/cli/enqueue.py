"""`reproq enqueue`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from reproq.cli.options import database_address, settings_options
from reproq.cli.run import CommandFailed
from reproq.client import Client, EnqueueRefused
from reproq.config import SettingsError, seconds


@click.command("enqueue")
@click.argument("task_type", metavar="TYPE")
@click.argument("payload", required=False)
@settings_options("database_url")
@click.option("--queue", "queue_name", metavar="NAME", help="Queue (default: default).")
@click.option("--priority", type=int, metavar="N", help="Higher runs first (default 0).")
@click.option("--delay", metavar="TIME", help="Not before this long from now, e.g. 90s, 2h.")
@click.option("--at", metavar="TIME", help="Not before this moment, e.g. 2030-01-31T12:00:00+01:00.")
@click.option("--key", "idempotency_key", metavar="TEXT", help="The same type and key again answers the first id.")
@click.option("--max-attempts", type=int, metavar="N", help="Attempts in all (default: the type's, else 3).")
@click.option("--timeout", metavar="TIME", help="Limit of one attempt, e.g. 30s (default: the type's, else none).")
@click.option("--unique-among", type=click.Choice(["active", "waiting"]), help="Not if the same task is there already.")
@click.option("--limit-key", metavar="TEXT", help="Stored with the task; nothing acts on it in this version.")
@click.option("--many", is_flag=True, help="Read one payload a line from stdin, store them all or none.")
@click.option("--wait", is_flag=True, help="Wait until it is over; print the result.")
@click.option("--wait-timeout", metavar="TIME", help="Wait at most this long; status 1 when it isn't over then.")
def command(task_type: str, payload: str | None, **given: Any) -> None:
    """Store a task of TYPE; prints its id. PAYLOAD is a JSON object, or - for stdin (default {}).

    \b
    reproq enqueue shop.pay '{"invoice": 7}'
    reproq enqueue shop.pay '{"invoice": 7}' --wait              prints the result
    reproq enqueue shop.remind --delay 2h --key invoice-7
    reproq enqueue db_function '{"task_type": "db_function", "db_function": "shop.close_month"}'
    cat invoices.jsonl | reproq enqueue shop.pay --many          one id a line
    """
    wait = given.pop("wait") or given["wait_timeout"] is not None
    limit = _seconds("--wait-timeout", given.pop("wait_timeout"))
    many = given.pop("many")
    address = database_address({"database_url": given.pop("database_url"), "config": given.pop("config")})
    options = _options(given)
    with Client(address, name="reproq enqueue") as client:
        if many:
            _store_many(client, task_type, payload, wait, options)
        else:
            _store_one(client, task_type, _parsed(_text(payload), "PAYLOAD"), wait, limit, options)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    delay, timeout = _seconds("--delay", given.pop("delay")), _seconds("--timeout", given.pop("timeout"))
    return given | {"delay": delay, "timeout": timeout, "scheduled_at": _moment(given.pop("at"))}


def _store_one(
    client: Client, task_type: str, payload: Any, wait: bool, limit: float | None, options: dict[str, Any]
) -> None:
    task_id = client.enqueue(task_type, payload, **options)
    click.echo(task_id, err=wait)
    if wait:
        try:
            result = client.result(task_id, limit)
        except TimeoutError as late:
            raise CommandFailed(f"{late}; ask again with `reproq tasks show {task_id}`") from None
        click.echo(json.dumps(result, ensure_ascii=False))


def _store_many(client: Client, task_type: str, payload: str | None, wait: bool, options: dict[str, Any]) -> None:
    if payload not in (None, "-") or wait:
        raise click.UsageError("--many reads its payloads from stdin and goes with neither PAYLOAD nor --wait")
    if options.pop("idempotency_key") is not None:
        raise click.UsageError("--key names one task and doesn't go with --many")
    for task_id in client.enqueue_many(task_type, _lines(), **options):
        click.echo(task_id)


def _lines() -> Iterator[Any]:
    for number, line in enumerate(_stdin().splitlines(), 1):
        if line.strip():
            yield _parsed(line, f"line {number}")


def _text(payload: str | None) -> str:
    return _stdin() if payload == "-" else "{}" if payload is None else payload


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as problem:
        raise EnqueueRefused(f"stdin isn't UTF-8 text (byte {problem.start})", None, "RQ002") from None


def _parsed(text: str, where: str) -> Any:
    try:
        value = json.loads(text)
    except RecursionError:
        raise EnqueueRefused(f"{where} is nested too deeply", "64 levels are the limit", "RQ002") from None
    except ValueError as problem:
        hint = """write '{"invoice": 7}', in single quotes for the shell"""
        raise EnqueueRefused(f"{where} isn't JSON: {problem}", hint, "RQ002") from None
    if value is None:
        raise EnqueueRefused(f"{where} must be a JSON object, not null", "leave it out for {}", "RQ002")
    return value


def _seconds(flag: str, value: str | None) -> float | None:
    try:
        return None if value is None else seconds(value)
    except ValueError as problem:
        raise SettingsError(f"{flag}: {problem}") from None


def _moment(value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise SettingsError(f"--at: {value!r:.60} isn't a moment; write 2030-01-31T12:00:00+01:00") from None
    return found if found.tzinfo else found.astimezone()  # no zone = the zone of whoever types it
