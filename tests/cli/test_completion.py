"""Completion as real shells ask for it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reproq.cli import completion
from tests.cli.screens import ROOT, Screen
from tests.conftest import Database

SHELLS = [
    pytest.param(name, marks=pytest.mark.skipif(not shutil.which(name), reason=f"no {name} here"))
    for name in ("zsh", "fish")
]


@pytest.fixture
def environ(database: Database, tmp_path: Path) -> dict[str, str]:
    """`reproq` on PATH, and a database with names in it."""
    program = tmp_path / "bin/reproq"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m reproq "$@"\n')
    program.chmod(0o755)
    for statement in (
        "select queues.pause_queue('bulk', true)",
        "select queues.enqueue('shop.pay', queue_name => 'invoices')",
        "select queues.register_worker('w/1/x', 'w', 1, '1', '{slow}', null, 1,"
        ' \'{"shop.pay": {}, "shop.mail": {}}\')',
    ):
        database.execute(statement)
    with database.connect("app") as conn:
        conn.execute("select queues.put_schedule('nightly', 'shop.close', cron => '30 2 * * *')")
    path = f"{program.parent}:{os.environ['PATH']}"
    return os.environ | {
        "PATH": path,
        "PYTHONPATH": str(ROOT),
        "REPROQ_DATABASE_URL": database.app_dsn,
        "_REPROQ_COMPLETE_PATIENCE": "20",
        "HOME": str(tmp_path),
    }


def in_bash(environ: dict[str, str], line: str) -> list[str]:
    """What bash offers behind this line."""
    words = " ".join(f"'{word}'" for word in line.split(" "))
    script = (
        f"source <(reproq completion bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1));"
        " _reproq_completion reproq; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environ, check=True, cwd=environ["HOME"]
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("reproq do", ["doctor"]),
        ("reproq queues pa", ["pause"]),
        ("reproq doctor --sec", ["--security"]),
        ("reproq completion ", ["bash", "zsh", "fish"]),
        ("reproq queues pause ", ["bulk", "invoices", "slow"]),
        ("reproq queues resume --type ", ["shop.mail", "shop.pay"]),
        ("reproq queues limit type shop.m", ["shop.mail"]),
        ("reproq worker --queue in", ["invoices"]),
        ("reproq enqueue shop.", ["shop.mail", "shop.pay"]),
        ("reproq schedules run ", ["nightly"]),
        ("reproq tasks list --type shop.p", ["shop.pay"]),
        ("reproq enqueue none", []),
    ],
)
def test_bash_completes(environ: dict[str, str], line: str, offered: list[str]) -> None:
    assert in_bash(environ, line) == offered


def test_a_tab_in_an_interactive_bash_completes(environ: dict[str, str]) -> None:
    with Screen(program=["bash", "--norc", "-i"], environ=environ | {"PS1": "$ "}) as screen:
        screen.wait_for("$")
        screen.press("source <(reproq completion bash); echo learn''ed\n")
        screen.wait_for("learned")
        screen.press("reproq queues pause inv\t")
        screen.wait_for("reproq queues pause invoices")


@pytest.mark.parametrize("shell", SHELLS)
def test_zsh_and_fish_complete(environ: dict[str, str], shell: str) -> None:
    if shell == "fish":
        script = "reproq completion fish | source; complete -C 'reproq queues pause inv'; complete -C 'reproq doc'"
        done = subprocess.run(
            ["fish", "--no-config", "-c", script], capture_output=True, text=True, env=environ, check=True
        )
        assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["invoices", "doctor"]
        return
    with Screen(program=["zsh", "-f", "-i"], environ=environ | {"PS1": "$ "}) as screen:
        screen.wait_for("$")
        screen.press("autoload -U compinit; compinit -u -D; source <(reproq completion zsh); echo learn''ed\n")
        screen.wait_for("learned")
        screen.press("reproq queues pause inv\t")
        screen.wait_for("reproq queues pause invoices")


@pytest.fixture
def deaf() -> Iterator[str]:
    """A server that takes a connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"postgresql://u:p@127.0.0.1:{server.getsockname()[1]}/x"


def test_a_database_that_says_nothing_isnt_waited_for(environ: dict[str, str], deaf: str) -> None:
    began = time.monotonic()
    assert (
        in_bash(environ | {"REPROQ_DATABASE_URL": deaf, "_REPROQ_COMPLETE_PATIENCE": ""}, "reproq queues pause ") == []
    )
    assert time.monotonic() - began < completion.PATIENCE_S + 10  # two starts of Python on a busy machine


@pytest.mark.parametrize("dsn", ["postgresql://u:p@127.0.0.1:1/x", "nonsense", ""])
def test_what_goes_wrong_is_never_said(environ: dict[str, str], dsn: str) -> None:
    assert in_bash(environ | {"REPROQ_DATABASE_URL": dsn}, "reproq queues pause ") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_says_how_to_install_it(shell: str) -> None:
    text = completion.script(shell)
    assert f"reproq completion {shell} > ~/." in text
    assert text.startswith("#")
