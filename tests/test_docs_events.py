"""docs/events.md: every command and statement runs as written, in its order; its tables are those of the code."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from reproq.config import plain
from reproq.config.dispatch import OPTIONS, DispatchSettings
from reproq.outbox import signing
from reproq.outbox.message import message
from reproq.queue.outbox import Delivery
from tests.conftest import Database
from tests.test_docs import FENCE, PAGES, ROOT, blocks, first_cells
from tests.test_docs_processes import psql, shell

PAGE = "docs/events.md"


def test_the_page_runs_from_its_top_to_its_end(database: Database, tmp_path: Path) -> None:
    if not Path(database.server.installed.program("psql")).exists():
        pytest.skip("this PostgreSQL came without psql")
    run = {"sql": psql, "sh": shell}
    printed = [
        run[language](database, text, tmp_path) for language, text in FENCE.findall(PAGES[PAGE]) if language in run
    ]
    out = "".join(printed)
    for words in (
        "added\n",
        "changed\n",
        "disabled\n",
        "enabled\n",
        "dropped\n",
        "wanted\n",
        "nothing is parked",
        "to deliver",
    ):
        assert words in out, words


def test_the_python_of_the_page_publishes(database: Database, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", blocks(PAGE, "python")[0]], cwd=tmp_path, capture_output=True, text=True, check=False,
        timeout=60, env={"PYTHONPATH": str(ROOT), "REPROQ_DATABASE_URL": database.app_dsn},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = database.execute("select event_type::text, subject::text, data from queues.outbox_event order by id")
    assert found == [
        ("shop.order.paid.v1", "order/7", {"amount": "12.50"}), ("shop.stock.low.v1", "article/12", {"left": 3}),
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["structured", "binary"])
def test_the_receiver_of_the_page_receives(mode: str) -> None:
    names: dict[str, Any] = {}
    exec(blocks(PAGE, "python")[1], names)
    secret = "whsec_" + "QUJD" * 8
    event = Delivery(7, 1, 1, 9, "an-id", "/reproq", "shop.paid", "order/7", None, "2026-01-02T03:04:05.678901Z", b"{}")
    sent = message(mode, [event])
    signed = signing.headers(sent.message_id, int(time.time()), sent.body, (signing.key_of(secret),))
    headers = {name.lower(): value for name, value in {**sent.headers, **signed}.items()}
    assert names["handle"](secret, headers, sent.body) == "an-id shop.paid order/7"
    with pytest.raises(Exception, match="signature"):
        names["handle"](secret, headers, sent.body + b" ")


def test_the_table_of_flags_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(--[a-z-]+)` \| (\S+) \| ([^|]*) \|", PAGES[PAGE], re.M)
    assert [(flag, variable.strip("`")) for flag, variable, _ in rows] == [(o.flag, o.variable or "–") for o in OPTIONS]
    for option, (_, _, default) in zip(OPTIONS, rows, strict=True):
        value = getattr(DispatchSettings, option.field)
        if isinstance(value, float):
            assert default in (plain(value), f"{value:g}s")
        elif value and not isinstance(value, bool):
            assert default == str(value)


def test_the_table_of_a_sinks_arguments_is_that_of_the_function(database: Database) -> None:
    ((names,),) = database.execute("select proargnames from pg_proc where oid = 'queues.put_sink'::regproc")
    table = PAGES[PAGE].split("## Sinks")[1].split("## Receive")[0]
    assert ["name", *(row[0] for row in first_cells(table))] == names
