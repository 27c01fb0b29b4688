from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from reproq.cli.commands import reproq
from reproq.cli.options import _HELP
from reproq.config.options import OPTIONS

ROOT = Path(__file__).parents[2]


def commands(group: click.Group, path: str = "reproq") -> Iterator[tuple[str, click.Command]]:
    yield path, group
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


ALL = dict(commands(reproq))


def shown(path: str) -> str:
    return ALL[path].get_help(click.Context(ALL[path], info_name=path))


@pytest.mark.parametrize("path", ALL)
def test_every_help_teaches_by_example(path: str) -> None:
    text = shown(path)
    example = path if path != "reproq tasks" else "reproq tasks show"
    assert re.search(rf"^ .*{example} ?.*$", text.partition("\n")[2], re.MULTILINE), text


@pytest.mark.parametrize("path", [path for path, command in ALL.items() if not isinstance(command, click.Group)])
def test_every_flag_in_an_example_exists(path: str) -> None:
    flags = {flag for option in ALL[path].params for flag in [*option.opts, *option.secondary_opts]}
    text = shown(path).partition("Options:")[0].replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip().startswith(path):
            used = [word for word in shlex.split(line.partition("|")[0]) if word.startswith("--")]
            assert set(used) <= flags, line


@pytest.mark.parametrize("path", ALL)
def test_every_flag_says_what_it_is_for(path: str) -> None:
    for option in ALL[path].params:
        if isinstance(option, click.Option):
            assert option.help, option.name


def test_the_worker_has_a_flag_for_every_setting() -> None:
    flags = {flag for option in ALL["reproq worker"].params for flag in option.opts}
    assert {option.flag for option in OPTIONS} <= flags
    assert set(_HELP) == {option.field for option in OPTIONS}


def test_the_console_script_is_ours() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"reproq": "reproq.cli:main"}
