"""db_function: one insert by a database function, committed together with the task's finish."""

from __future__ import annotations

from psycopg import sql

from reproq.bench.drain import Plan, drain
from reproq.bench.figures import Figure, LeftOut, Step, Values, at_least
from reproq.bench.lab import Database, Lab

_FLAGS = ("--processes", "1", "--system-processes", "4")


def db_function(lab: Lab) -> Values:
    with lab.database("function") as database:
        _install(database)
        tasks = lab.size("ours.function", 4_000, 5)
        last = database.enqueue(tasks, "db_function", payload={"db_function": "bench_work.insert_one"})
        database.settle()
        done = drain(lab, database, Plan(last, lab.seconds(15), _FLAGS))
        effects = database.one("effects")
    if done.details["odd"] or effects < done.done:
        raise LeftOut(f"{done.done} tasks ended, {done.details['odd']} of them wrong, and left {effects} rows")
    lab.rates["ours.function"] = done.rate
    return {"ours.function": done.rate, "detail": done.details}


def _install(database: Database) -> None:
    database.run("work")
    worker = sql.Identifier(f"{database.server.prefix}worker_service_user")
    for right in ("usage on schema bench_work", "execute on function bench_work.insert_one"):
        database.connection.execute(sql.SQL("grant {} to {}").format(sql.SQL(right), worker))


STEPS = (
    Step(
        "ours: db_function",
        "Ours: tasks a second",
        db_function,
        [
            Figure(
                "ours.function",
                "db_function doing one insert, 4 system children",
                "/s",
                "floor.function",
                bound=at_least(0.5),
            )
        ],
        11,
    ),
)
