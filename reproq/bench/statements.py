"""The benchmark's own SQL: one statement, or one script, in each file of sql/."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import LiteralString

from reproq.db.connect import as_sql

_FOLDER = Path(__file__).parent / "sql"


@functools.cache
def statement(name: str) -> LiteralString:
    return as_sql((_FOLDER / f"{name}.sql").read_text("utf-8").strip().removesuffix(";"))


def script(name: str) -> Path:
    """For pgbench."""
    return _FOLDER / f"{name}.sql"
