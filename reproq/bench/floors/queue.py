"""Claim and finish on a bare table of the same columns: no CHECK, no trigger, no fence but the two columns."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time

from reproq.bench.figures import Figure, LeftOut, Step, Values
from reproq.bench.lab import Database, Lab
from reproq.bench.server import libpq_environment
from reproq.bench.statements import script, statement

BATCH = 500
_GUESS = 60_000.0


def bare(database: Database, rows: int, fill: str = "bare_fill") -> None:
    database.run("bare_table")
    database.ask(fill, rows)
    database.settle("bare")


def claim_and_finish(lab: Lab) -> Values:
    """One client, two statements a batch, each a transaction."""
    with lab.database("floor") as database:
        bare(database, lab.size("floor.batch", _GUESS, 5, 5 * BATCH))
        rate = _batches(database, lab.seconds(4))
    lab.rates["floor.batch"] = rate
    return {"floor.batch": rate}


def _batches(database: Database, seconds: float) -> float:
    done, began = 0, time.perf_counter()
    with database.server.connect(database.name) as connection:
        connection.prepare_threshold = 5
        while time.perf_counter() < began + seconds:
            rows = connection.execute(statement("bare_claim"), [BATCH]).fetchall()
            if not rows:
                break
            ids, numbers = [row[0] for row in rows], [row[1] for row in rows]
            results = [json.dumps(row[2]) for row in rows]
            connection.execute(statement("bare_finish"), (ids, numbers, results))
            done += len(rows)
    return done / (time.perf_counter() - began)


def one_by_one(lab: Lab) -> Values:
    """pgbench, as many clients as named: claim one, finish one, each in a transaction of its own."""
    found: Values = {}
    for clients in (1, 8):
        key = f"floor.single.{clients}"
        with lab.database("floor") as database:
            bare(database, lab.size(key, 8_000, 5, 2_000))
            found[key] = lab.rates[key] = pgbench(lab, database, "pgbench_claim_finish", clients, lab.seconds(3, 1))
    return found


def work_and_finish(lab: Lab) -> Values:
    """pgbench, four clients: one insert and the finish in one transaction; its second form is one statement."""
    found: Values = {}
    for key, name in (
        ("floor.function", "pgbench_work_finish"),
        ("floor.function.once", "pgbench_work_finish_at_once"),
    ):
        with lab.database("floor") as database:
            database.run("work")
            bare(database, lab.size(key, 15_000, 5, 2_000), "bare_fill_running")
            found[key] = lab.rates[key] = pgbench(lab, database, name, 4, lab.seconds(3, 1), "-D", "n=-1")
    return found


def pgbench(lab: Lab, database: Database, name: str, clients: int, seconds: float, *more: str) -> float:
    command = [lab.server.program("pgbench"), "-n", "-M", "prepared", "-c", str(clients), "-j", str(min(clients, 2))]
    command += ["-T", str(max(1, round(seconds))), "-f", str(script(name)), *more]
    environ = {**os.environ, **libpq_environment(database.dsn)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environ)
    found = re.search(r"tps = ([\d.]+)", done.stdout)
    if done.returncode or not found:
        raise LeftOut(f"pgbench failed: {done.stderr.strip()[-300:]}")
    return float(found[1])


STEPS = (
    Step(
        "floor: claim and finish",
        "Floors",
        claim_and_finish,
        [Figure("floor.batch", f"claim {BATCH} + finish {BATCH}, one bare client")],
        9,
    ),
    Step(
        "floor: one at a time",
        "Floors",
        one_by_one,
        [
            Figure(
                f"floor.single.{n}",
                f"claim 1 + finish 1, pgbench, {n} client{'s' if n > 1 else ''}",
                "/s",
                "floor.batch",
            )
            for n in (1, 8)
        ],
        10,
    ),
    Step(
        "floor: work and finish",
        "Floors",
        work_and_finish,
        [
            Figure("floor.function", "insert + finish in one transaction, pgbench, 4 clients"),
            Figure("floor.function.once", "the same in one statement", "/s", "floor.function"),
        ],
        10,
    ),
)
