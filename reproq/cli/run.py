"""Runs a command and turns every expected way to fail into one line on stderr and an exit status."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from traceback import format_exception
from typing import Any, NoReturn

import click

from reproq import log
from reproq.cli import exits
from reproq.models.errors import ReproqError

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class CommandFailed(ReproqError):
    """The command did what it could, and the answer is no: exit status 1."""


def run(command: click.Command, program: str, arguments: Sequence[str] | None = None) -> NoReturn:
    _open_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no → is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        result = command.main(args=arguments, prog_name=program, standalone_mode=False)
        status = result if isinstance(result, int) else exits.DONE
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as problem:
        problem.show()
        status = exits.USAGE
    except click.ClickException as problem:
        status = _refuse(_usage(problem), exits.USAGE)
    except (KeyboardInterrupt, click.Abort):
        status = exits.INTERRUPTED
    except BrokenPipeError:  # `reproq tasks list | head`
        _drop_output()
        status = exits.FAILED
    except Exception as problem:  # noqa: BLE001 - a bug's traceback may hold secrets: it is shown redacted
        status = _failure(problem)
    sys.exit(status)


def _open_closed() -> None:
    """Started without stdout or stderr (`>&-`): else the connection to the database would get their number."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 - for as long as the program runs
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def _drop_output() -> None:
    """Nothing more is written, so that Python doesn't try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failure(problem: Exception) -> int:
    """One line for what is expected to go wrong; a bug keeps its traceback."""
    if isinstance(problem, OSError) and problem.errno in _UNWRITABLE and problem.filename is None:
        _drop_output()
        return _refuse(f"the output can't be written: {problem.strerror}", exits.FAILED)
    if isinstance(problem, ReproqError):
        return _refuse(str(problem), _status(problem))
    psycopg = sys.modules.get("psycopg")
    if psycopg is None or not isinstance(problem, psycopg.Error):
        click.echo(log.redact("".join(format_exception(problem))), err=True, nl=False)
        return exits.FAILED
    from reproq.db.errors import Kind, classify, first_line

    late = classify(problem) in (Kind.LATE, Kind.BUSY)
    said = f"database: {first_line(problem)}{_next_step(problem)}{_note(problem)}"
    return _refuse(said, exits.FAILED if late else exits.USAGE)


def _status(problem: ReproqError) -> int:
    """A refused value is a usage error; a failed task or a lost database isn't."""
    from reproq.client import ClientError, EnqueueRefused

    failed = isinstance(problem, CommandFailed) or (
        isinstance(problem, ClientError) and not isinstance(problem, EnqueueRefused)
    )
    return exits.FAILED if failed else exits.USAGE


def _next_step(problem: Any) -> str:
    """Of an error that is ours, and of a connection that didn't come about."""
    from reproq.db.reach import came_about, way_out

    if (problem.sqlstate or "").startswith("RQ"):
        return f". {problem.diag.message_hint}" if problem.diag.message_hint else ""
    return "" if came_about(str(problem)) else f"; {way_out(str(problem))}"


def _note(problem: Exception) -> str:
    return "".join(f" ({note})" for note in getattr(problem, "__notes__", []))


def _refuse(message: str, status: int) -> int:
    line = " ".join(message.split()).replace("\0", "?")
    click.echo(log.redact(f"reproq: error: {line}"), err=True)
    return status


def _usage(problem: click.ClickException) -> str:
    message = problem.format_message().rstrip(".")
    context = getattr(problem, "ctx", None)
    return f"{message}; see {context.command_path} --help" if context else message
