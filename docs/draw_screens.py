"""Draws docs/top.svg and docs/demo.svg from the real programs under a terminal: python docs/draw_screens.py"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from reproq import Client  # noqa: E402  (the checkout's own, wherever we are started)
from reproq.db.connect import connect  # noqa: E402
from reproq.db.embedded import EmbeddedServer, throwaway  # noqa: E402
from tests.cli.screens import Screen  # noqa: E402

SHOP = """
import time
from reproq import task

@task("shop.pay")
def pay(payload): time.sleep(0.02); return {}

@task("shop.resize_image")
def resize(payload): time.sleep(0.3); return {}

@task("shop.call_bank", max_attempts=1)
def call(payload): raise ConnectionError("the bank is closed")
"""
WATCHED_S = 25.0
CELL, LINE, SIZE = 8.43, 18, 14  # most monospaced fonts are 0.602 as wide as high
PAPER, TEXT, BUTTONS = "#1b1f24", "#d0d7de", ("#ff5f57", "#febc2e", "#28c840")
INK = {"red": "#ff7b72", "green": "#7ee787", "brown": "#e3b341", "cyan": "#79c0ff", "magenta": "#d2a8ff"}

Word = tuple[int, str, str, bool]  # where it begins, its text, its look, whether the background is turned
Line = list[Word]


def main() -> None:
    draw(top(), ROOT / "docs/top.svg", "reproq top")
    draw(demo(), ROOT / "docs/demo.svg", "reproq demo")


def top() -> list[Line]:
    """Two workers, a load that comes and goes, a queue that is paused, a few dead letters."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "shop.py").write_text(SHOP)
        server = stack.enter_context(throwaway())
        server.install(say=lambda _: None)
        with connect(server.admin_dsn, name="draw") as conn:
            conn.execute("select queues.pause_queue('newsletter', true)")
        for name, queues in (("web1", ["default", "newsletter"]), ("media1", ["images"])):
            stack.enter_context(worker(server, folder, name, queues))
        stop = threading.Event()
        loader = threading.Thread(target=load, args=(server.app_dsn(), stop))
        loader.start()
        stack.callback(loader.join)
        stack.callback(stop.set)
        screen = stack.enter_context(Screen("top", environ={"REPROQ_DATABASE_URL": server.worker_dsn}))
        until = time.monotonic() + WATCHED_S
        screen.wait_for(lambda _: time.monotonic() > until)
        picture = lines_of(screen)
        screen.press("q")
        screen.end()
        return picture


@contextmanager
def worker(server: EmbeddedServer, folder: Path, name: str, queues: list[str]) -> Iterator[None]:
    flags = [word for queue in queues for word in ("--queue", queue)]
    process = subprocess.Popen(
        [sys.executable, "-m", "reproq", "worker", "--app", "shop", "--processes", "2", "--worker-id", name, *flags],
        cwd=folder,
        env=os.environ | {"REPROQ_DATABASE_URL": server.worker_dsn, "PYTHONPATH": f"{ROOT}:{folder}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def load(dsn: str, stop: threading.Event) -> None:
    with Client(dsn, name="shop") as client:
        client.enqueue_many("shop.newsletter", [{}] * 4200, queue_name="newsletter")
        client.enqueue_many("shop.pay", [{}] * 150, delay=3600)
        client.enqueue_many("shop.call_bank", [{}] * 3)
        for tick in range(10_000):
            if stop.wait(0.5):
                return
            client.enqueue_many("shop.pay", [{}] * (20 + 40 * (tick // 8 % 2)))
            client.enqueue_many("shop.resize_image", [{}] * 4, queue_name="images")


def demo() -> list[Line]:
    """Its story and its table; the timeline of the email is left out."""
    with Screen("demo", columns=100, lines=110) as screen:
        status = screen.end()
        assert status == 0, screen.text
        lines = lines_of(screen)
        bottom = next(number for number, line in enumerate(lines) if line and line[0][1].startswith("╰"))
        return [*lines[: bottom + 1], [(0, "…", "", False)], *lines[-3:]]


def lines_of(screen: Screen) -> list[Line]:
    """What stands on the screen, without the empty lines at its end."""
    rows = [screen.screen.buffer[number] for number in range(screen.screen.lines)]
    lines = [list(words([row[column] for column in range(screen.screen.columns)])) for row in rows]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def words(row: list[Any]) -> Iterator[Word]:
    """Runs of one look. Spaces part them, but where the background is turned: so columns stand in any font."""
    at = 0
    for look, chars in itertools.groupby(
        row, key=lambda char: (char.fg, char.bold, char.reverse, char.data == " " and not char.reverse)
    ):
        text = "".join(char.data for char in chars)
        colour, bold, reverse, blank = look
        if not blank:
            yield at, text, INK.get(colour, TEXT) + (";font-weight:bold" if bold else ""), reverse
        at += len(text)


def draw(lines: list[Line], path: Path, title: str) -> None:
    width = max((at + len(text) for line in lines for at, text, _, _ in line), default=1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width * CELL + 24:.0f} {len(lines) * LINE + 44:.0f}"'
        f' role="img" aria-label="{title}">',
        f'<rect width="100%" height="100%" rx="6" fill="{PAPER}"/>',
        *(f'<circle cx="{18 + 16 * n}" cy="15" r="5" fill="{ink}"/>' for n, ink in enumerate(BUTTONS)),
        f'<g font-family="DejaVu Sans Mono,ui-monospace,SFMono-Regular,Menlo,monospace" font-size="{SIZE}"'
        ' xml:space="preserve">',
        *(part for number, line in enumerate(lines) for word in line for part in drawn(word, number)),
        "</g></svg>",
    ]
    path.write_text("\n".join(parts) + "\n")
    sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")


def drawn(word: Word, number: int) -> Iterator[str]:
    at, text, look, reverse = word
    x, y = 12 + at * CELL, 32 + number * LINE
    length = f'textLength="{len(text) * CELL:.1f}" lengthAdjust="spacingAndGlyphs"'
    if reverse:
        yield f'<rect x="{x:.1f}" y="{y:.1f}" width="{len(text) * CELL:.1f}" height="{LINE}" fill="{TEXT}"/>'
        look = PAPER
    if text.strip():
        yield f'<text x="{x:.1f}" y="{y + 14:.1f}" {length} style="fill:{look}">{escape(text)}</text>'


if __name__ == "__main__":
    main()
