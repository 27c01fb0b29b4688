"""`reproq top`: queues, workers and rates, live on a terminal."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from reproq.cli import exits
from reproq.cli.options import database_address, settings_options
from reproq.config import SettingsError, seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from reproq.cli.keyboard import Terminal
    from reproq.cli.top_looks import Looks, Picture, Watch
    from reproq.cli.top_view import Mode

FASTEST_S, SLOWEST_S = 0.2, 60.0


@click.command("top")
@settings_options("database_url")
@click.option("--interval", metavar="TIME", default="1s", show_default=True, help="Between two looks, 0.2s to 1m.")
@click.option("--once", is_flag=True, help="Print one sheet and end; so it does where there is no terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and end.")
def command(interval: str, once: bool, as_json: bool, **flags: Any) -> int:
    """Queues, workers and rates, live. Keys: q quit, p hold the picture, s sort, ? help.

    \b
    reproq top
    reproq top --interval 5s
    reproq top --once | head -20
    reproq top --json | jq '.queues[] | select(.oldest_s > 60) | .name'

    \b
    Needs a login with reproq_reader or worker_service_user, the owner or an
    administrator. A look costs the database some milliseconds, however many
    tasks there are: counts end at 10,000. Exit status: 0 ended by q or Ctrl-C.
    """
    pause = _interval(interval)
    from rich.console import Console

    from reproq.cli.top_looks import Looks

    looks = Looks(database_address(flags))
    console = Console(highlight=False)
    try:
        picture = looks.look()
        if not once and not as_json and console.is_terminal and not console.is_dumb_terminal and sys.stdin.isatty():
            return _live(console, looks, picture, pause)
        time.sleep(pause)  # a rate needs two looks
        _print(console, looks, as_json)
    finally:
        looks.close()
    return exits.DONE


def _interval(text: str) -> float:
    try:
        pause = seconds(text)
    except ValueError as problem:
        raise SettingsError(f"--interval: {problem}") from None
    if not FASTEST_S <= pause <= SLOWEST_S:
        raise SettingsError(f"--interval: {text} is out of range; take 0.2s to 1m")
    return pause


def _print(console: Console, looks: Looks, as_json: bool) -> None:
    from rich.console import Console

    from reproq.cli.top_view import document, sheet

    picture = looks.look()
    if as_json:
        click.echo(document(picture))
        return
    if not console.is_terminal:  # as wide as whoever reads it says, else as a page
        console = Console(highlight=False, no_color=True, width=_columns())
    with console.capture() as sheet_of_text:
        console.print(sheet(picture, console.width))
    click.echo("\n".join(line.rstrip() for line in sheet_of_text.get().splitlines()))


def _columns() -> int:
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdigit() and int(given) >= 40 else 100


def _live(console: Console, looks: Looks, picture: Picture, pause: float) -> int:
    from rich.live import Live

    from reproq.cli.keyboard import Terminal
    from reproq.cli.top_looks import Watch
    from reproq.cli.top_view import Mode

    mode = Mode()
    with Terminal() as terminal:
        watch = Watch(looks, pause, picture, terminal.wake)
        watch.start()
        try:
            while True:
                with Live(console=console, screen=True, auto_refresh=False) as live:
                    ended = _watch(live, terminal, watch, mode)
                if ended != signal.SIGTSTP:
                    return exits.DONE if ended in (0, signal.SIGINT) else 128 + ended
                terminal.suspend()
        finally:
            watch.stop()


def _watch(live: Live, terminal: Terminal, watch: Watch, mode: Mode) -> int:
    """Draws until a key or a signal ends it; answers the signal, 0 for the key."""
    from reproq.cli.top_view import screen

    picture = watch.picture
    while True:
        if not mode.paused:
            picture = watch.picture
        size = os.get_terminal_size(sys.stdout.fileno())
        live.console.size = (size.columns, size.lines)  # whatever COLUMNS says: the window changes
        live.update(screen(picture, mode, watch, size.columns, size.lines), refresh=True)
        keys, signals = terminal.wait(1.0)
        for number in signals:
            if number != signal.SIGWINCH:
                return int(number)
        for key in keys:
            if key in "qQ":
                return 0
            mode.press(key)
