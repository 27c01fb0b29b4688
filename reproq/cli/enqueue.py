"""`reproq enqueue`."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from reproq.cli.options import database_address, settings_options
from reproq.cli.run import CommandFailed
from reproq.cli.sheets import as_json_text
from reproq.cli.terminal import bar, spinner
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
@click.option(
    "--limit-key",
    metavar="TEXT",
    help="Tasks with the same key run one at a time, or as `reproq queues limit key` says.",
)
@click.option("--file", "file", metavar="FILE", help="Read PAYLOAD, or with --many the lines, from a file; - = stdin.")
@click.option("--many", is_flag=True, help="One payload a line, from stdin or --file; all are stored or none.")
@click.option("--commit-every", type=click.IntRange(min=1), metavar="N", help="With --many: a commit for each N lines.")
@click.option("--wait", is_flag=True, help="Wait until it is over; print the result.")
@click.option("--wait-timeout", metavar="TIME", help="Wait at most this long; status 1 when it isn't over then.")
@click.option("--json", "as_json", is_flag=True, help="An object with the id; with --wait the task as it ended.")
def command(task_type: str, payload: str | None, as_json: bool, **given: Any) -> None:
    """Store a task of TYPE; prints its id. PAYLOAD is a JSON object, or - for stdin (default {}).

    \b
    reproq enqueue shop.pay '{"invoice": 7}'
    reproq enqueue shop.pay '{"invoice": 7}' --wait              prints the result
    reproq enqueue shop.remind --delay 2h --key invoice-7
    reproq enqueue db_function \\
        '{"task_type": "db_function", "db_function": "shop.close_month"}'
    reproq enqueue shop.pay --file invoice.json
    cat invoices.jsonl | reproq enqueue shop.pay --many          one id a line
    reproq enqueue shop.pay --many --file invoices.jsonl --commit-every 10000

    All lines are read and checked before the first is stored. With --commit-every what was committed stays when a later
    line is refused; the message says how many.
    """
    wait = given.pop("wait") or given["wait_timeout"] is not None
    limit = _seconds("--wait-timeout", given.pop("wait_timeout"))
    many, file, every = given.pop("many"), given.pop("file"), given.pop("commit_every")
    if file is not None and payload is not None:
        raise click.UsageError("give PAYLOAD or --file, not both")
    if every is not None and not many:
        raise click.UsageError("--commit-every goes with --many")
    address = database_address({"database_url": given.pop("database_url"), "config": given.pop("config")})
    options = _options(given)
    if many:
        if payload not in (None, "-") or wait:
            raise click.UsageError("--many reads its payloads from stdin or --file; without PAYLOAD and --wait")
        if options.pop("idempotency_key") is not None:
            raise click.UsageError("--key names one task and doesn't go with --many")
        _store_many(address, task_type, list(_lines(_read(file or "-"))), every, as_json, options)
        return
    document = _parsed(_text(payload) if file is None else _read(file), "PAYLOAD")
    with Client(address, name="reproq enqueue") as client:
        task_id = client.enqueue(task_type, document, **options)
        _say_id(task_id, as_json and not wait, err=wait)
        if wait:
            _await(client, task_id, limit, as_json)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    delay, timeout = _seconds("--delay", given.pop("delay")), _seconds("--timeout", given.pop("timeout"))
    return given | {"delay": delay, "timeout": timeout, "scheduled_at": _moment(given.pop("at"))}


def _say_id(task_id: int, as_json: bool, *, err: bool = False) -> None:
    click.echo(as_json_text({"id": task_id}) if as_json else task_id, err=err)


def _await(client: Client, task_id: int, limit: float | None, as_json: bool) -> None:
    """Print the result, or with `as_json` the task however it ended; a failure is an error either way."""
    try:
        with spinner(f"waiting for task {task_id}"):
            status = client.wait(task_id, limit)
    except TimeoutError as late:
        raise CommandFailed(f"{late}; ask again with `reproq tasks show {task_id}`") from None
    if as_json:
        click.echo(as_json_text(dataclasses.asdict(status)))
    result = status.result()
    if not as_json:
        click.echo(json.dumps(result, ensure_ascii=False))


CHUNK = 5000


def _store_many(
    address: str, task_type: str, lines: list[Line], every: int | None, as_json: bool, options: dict[str, Any]
) -> None:
    """In one transaction, or in one for each `every` lines. Ids are printed once they are committed."""
    from reproq.db.connect import connect

    stored = 0
    with connect(address, name="reproq enqueue") as connection, bar("storing", len(lines)) as storing:
        for part in _parts(lines, every or len(lines)):
            ids: list[int] = []
            try:
                with connection.transaction():
                    for chunk in _parts(part, CHUNK):
                        ids += Client.enqueue_many_in(connection, task_type, [value for _, value in chunk], **options)
                        storing.advance(len(chunk))
            except EnqueueRefused as refused:
                raise _with_line(refused, part[len(ids) : len(ids) + CHUNK], stored) from None
            stored += len(ids)
            with storing.aside():
                for task_id in ids:
                    _say_id(task_id, as_json)


Line = tuple[int, Any]
"""Its number and what it says."""


def _parts(lines: list[Line], size: int) -> Iterator[list[Line]]:
    for start in range(0, len(lines), max(1, size)):
        yield lines[start : start + size]


_PLACE = re.compile(r"payload no\. (\d+): ")


def _with_line(refused: EnqueueRefused, chunk: list[Line], stored: int) -> EnqueueRefused:
    """The database counts payloads within a call; a person counts lines."""
    place = _PLACE.match(refused.message)
    where = f"line {chunk[int(place[1]) - 1][0]}: {refused.message[place.end() :]}" if place else refused.message
    kept = f"the {stored} tasks before it are stored" if stored else "nothing was stored"
    return EnqueueRefused(f"{where}; {kept}", None if place else refused.hint, refused.sqlstate)


def _lines(text: str) -> Iterator[Line]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            value = _parsed(line, f"line {number}")
            if not isinstance(value, dict):
                raise EnqueueRefused(f"line {number} must be a JSON object, like {{}}", "nothing was stored", "RQ002")
            yield number, value


def _text(payload: str | None) -> str:
    return _read("-") if payload == "-" else "{}" if payload is None else payload


def _read(file: str) -> str:
    """A file, or - for stdin."""
    name = "stdin" if file == "-" else file
    try:
        return (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise EnqueueRefused(f"{name} isn't UTF-8 text (byte {problem.start})", None, "RQ002") from None
    except OSError as problem:
        raise EnqueueRefused(f"{name} can't be read: {problem.strerror}", None, "RQ002") from None


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
