"""The whole tree of commands, as somebody meets it who doesn't know it yet."""

from __future__ import annotations

import json
import subprocess
import sys

import click
import pytest

from reproq.cli.commands import _MAP, reproq
from tests.cli.conftest import Call
from tests.cli.screens import ROOT
from tests.cli.test_help import ALL
from tests.conftest import Database

# These run or print what isn't an answer: a program, a story, a script, a log of what is done.
GOING_ON = {f"reproq {name}" for name in ("worker", "demo", "migrate", "serve", "bench", "completion")}
LEAVES = {path: command for path, command in ALL.items() if not isinstance(command, click.Group)}


@pytest.mark.parametrize("path", ALL)
def test_every_help_fits_80_columns(path: str) -> None:
    context = click.Context(ALL[path], info_name=path, terminal_width=80, max_content_width=80)
    too_long = [line for line in ALL[path].get_help(context).splitlines() if len(line) > 80]
    assert too_long == []


@pytest.mark.parametrize("path", [path for path in LEAVES if path not in GOING_ON])
def test_whatever_answers_does_so_for_programs_too(path: str) -> None:
    assert "--json" in {flag for option in LEAVES[path].params for flag in option.opts}


@pytest.mark.parametrize("path", LEAVES)
def test_every_help_says_what_it_does_in_its_first_line(path: str) -> None:
    first = (LEAVES[path].help or "").partition("\n")[0]
    assert 10 < len(first) <= 120


def test_reproq_alone_shows_a_map_by_purpose(call: Call) -> None:
    status, out, err = call()
    assert (status, err) == (0, "")
    for section, commands in _MAP.items():
        assert f"\n{section}:\n" in out
        assert all(f"\n  {name} " in out for name in commands)


@pytest.mark.parametrize("path", [path for path, command in ALL.items() if isinstance(command, click.Group)])
def test_an_unknown_command_is_told_the_nearest(call: Call, path: str) -> None:
    group = ALL[path]
    assert isinstance(group, click.Group)
    name = next(name for name in group.list_commands(click.Context(group)) if len(name) > 3)
    status, out, err = call(*path.split()[1:], f"{name[:-2]}x{name[-1]}")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert name in err.lower().partition("did you mean")[2]


@pytest.mark.parametrize("path", LEAVES)
def test_an_unknown_flag_is_one_line_with_the_way_to_the_help(call: Call, path: str) -> None:
    status, out, err = call(*path.split()[1:], "--databse-url", "x")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert f"see {path} --help" in err


def test_a_schedule_s_name_that_is_nearly_right_is_told_the_right_one(call: Call) -> None:
    call("schedules", "put", "nightly", "shop.close", "--cron", "30 2 * * *")
    for order in (["pause"], ["resume"], ["run"], ["drop"], ["next"]):
        status, out, err = call("schedules", *order, "nightli")
        assert (status, out) == (1, "")
        assert "did you mean nightly?" in err
    assert "slot" in json.loads(call("schedules", "next", "nightly", "--count", "1", "--json")[1])


@pytest.mark.parametrize(
    "arguments",
    [["tasks", "list", "--limit", "10000", "--json"], ["top", "--once", "--interval", "200ms"], ["--help"], ["doctor"]],
)
def test_a_pipe_that_closes_early_is_quiet(database: Database, arguments: list[str]) -> None:
    database.execute("select queues.enqueue_many('t', array_fill('{}'::jsonb, array[2000]))")
    command = " ".join([sys.executable, "-m", "reproq", *arguments])
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PATH": "/bin:/usr/bin", "REPROQ_DATABASE_URL": database.dsn},
    )
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("arguments", [["tasks", "list"], ["top", "--once", "--interval", "200ms"], ["--help"]])
def test_output_that_cannot_be_written_is_one_line(database: Database, arguments: list[str]) -> None:
    command = " ".join([sys.executable, "-m", "reproq", *arguments])
    full, closed = (
        subprocess.run(
            ["bash", "-c", f"{command} {redirection}"],
            check=False,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PATH": "/bin:/usr/bin", "REPROQ_DATABASE_URL": database.dsn},
        )
        for redirection in ("> /dev/full", ">&-")
    )
    assert (full.returncode, full.stderr.count("\n")) == (1, 1), full.stderr
    assert "No space left on device" in full.stderr
    assert (closed.returncode, closed.stderr) == (0, "")


def test_no_command_is_missing_from_the_map() -> None:
    assert list(reproq.list_commands(click.Context(reproq))) == [name for section in _MAP.values() for name in section]
