"""COPY, multi-row and single inserts into the bare table."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from reproq.bench.figures import Figure, Step, Values
from reproq.bench.lab import Lab
from reproq.bench.statements import statement
from reproq.db.connect import Connection, as_sql

ROWS = 1000  # of a multi-row insert


def inserts(lab: Lab) -> Values:
    with lab.database("floor") as database:
        database.run("bare_table")
        payloads = [json.dumps({"n": n}) for n in range(lab.count(100_000, ROWS))]
        with database.server.connect(database.name) as connection:
            connection.prepare_threshold = 5

            def rate(work: Callable[[Connection, list[str]], object], few: list[str]) -> float:
                began = time.perf_counter()
                work(connection, few)
                return len(few) / (time.perf_counter() - began)

            return {
                "floor.insert": rate(_single, payloads[: lab.count(6_000)]),
                "floor.insert.many": rate(_many, payloads[: len(payloads) // ROWS * ROWS]),
                "floor.insert.copy": rate(_copy, payloads),
            }


def _single(connection: Connection, payloads: list[str]) -> None:
    for payload in payloads:
        connection.execute(statement("bare_insert"), [payload])


def _many(connection: Connection, payloads: list[str]) -> None:
    text = as_sql(f"{statement('bare_insert_many')} {', '.join(['(%s, %s)'] * ROWS)} returning id")
    for start in range(0, len(payloads), ROWS):
        values = [value for payload in payloads[start : start + ROWS] for value in ("bench.noop", payload)]
        connection.execute(text, values).fetchall()


def _copy(connection: Connection, payloads: list[str]) -> None:
    with connection.cursor().copy(statement("bare_copy")) as copy:
        for payload in payloads:
            copy.write_row(("bench.noop", payload))


STEPS = (
    Step(
        "floor: inserts",
        "Floors",
        inserts,
        [
            Figure("floor.insert", "INSERT, one a commit"),
            Figure("floor.insert.many", f"INSERT, {ROWS} rows a commit"),
            Figure("floor.insert.copy", "COPY"),
        ],
        6,
    ),
)
