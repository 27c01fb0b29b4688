"""How many tasks a second, by kind of work."""

from __future__ import annotations

from reproq.bench.drain import Plan, Run, drain
from reproq.bench.figures import Bound, Figure, LeftOut, Step, Values, at_least
from reproq.bench.lab import Lab
from reproq.bench.sampler import cores

SECTION = "Ours: tasks a second"
NOOP_GUESS = 25_000.0
NOOP_FLAGS = ("--processes", "2")


def run(
    lab: Lab, key: str, task_type: str, guess: float, seconds: float, flags: tuple[str, ...], start_s: float = 0
) -> Run:
    """Fill by what the last run did, let a worker empty it, and refuse a run in which a task went wrong.

    `start_s`: the tasks fall due so much later, when all of many children have been started.
    """
    with lab.database("ours") as database:
        last = database.enqueue(lab.size(key, guess, seconds), task_type, delay_s=start_s)
        database.settle()
        done = drain(lab, database, Plan(last, lab.seconds(seconds) * 3 + 2 + start_s, flags))
    if done.details["odd"]:
        raise LeftOut(f"{done.details['odd']} of {done.done} tasks failed or ran more than once")
    lab.rates[key] = done.rate
    return done


def noop(lab: Lab) -> Values:
    done = run(lab, "ours.noop", "bench.noop", NOOP_GUESS, 6, NOOP_FLAGS)
    parts = {"ours.cpu.runner": "runner", "ours.cpu.children": "child", "ours.cpu.guard": "guard"}
    costs = {key: done.details[f"{part} µs"] for key, part in parts.items() if f"{part} µs" in done.details}
    if "server µs" in done.details:
        costs["ours.cpu.server"] = done.details["server µs"]
    return {"ours.noop": done.rate, **costs, "detail": done.details}


def cpu(lab: Lab) -> Values:
    done = run(lab, "ours.cpu5", "bench.cpu", cores() / 0.005, 4, NOOP_FLAGS, start_s=1)
    return {"ours.cpu5": done.rate, "detail": done.details}


def sleeps(children: int) -> Step:
    key = f"ours.sleep.{children}"

    def measure(lab: Lab) -> Values:
        start_s = 1 + children * 0.03
        done = run(lab, key, "bench.sleep", children / 0.02, 4, ("--processes", str(children)), start_s)
        return {key: done.rate, "detail": done.details}

    bound = at_least({8: 0.97, 32: 0.95, 64: 0.9}[children])
    title = f"20 ms of sleep, {children} children"
    figure = Figure(key, title, ideal=children / 0.02, against_title="ideal", bound=bound)
    return Step(f"ours: {title}", SECTION, measure, [figure], 8)


def fresh_process(lab: Lab) -> Values:
    done = run(lab, "ours.recycle", "bench.noop", 200, 4, (*NOOP_FLAGS, "--recycle", "1"))
    return {"ours.recycle": done.rate, "detail": done.details}


STEPS = (
    Step(
        "ours: no-op",
        SECTION,
        noop,
        [
            Figure("ours.noop", "no-op, 2 children, one task at a time each", "/s", "floor.batch", bound=at_least(0.4)),
            Figure("ours.cpu.runner", "CPU a no-op: runner", "µs"),
            Figure("ours.cpu.guard", "CPU a no-op: guard", "µs"),
            Figure("ours.cpu.children", "CPU a no-op: children", "µs"),
            Figure("ours.cpu.server", "CPU a no-op: PostgreSQL", "µs"),
        ],
        16,
    ),
    Step(
        "ours: 5 ms of CPU",
        SECTION,
        cpu,
        [
            Figure(
                "ours.cpu5",
                "5 ms of CPU, 2 children",
                ideal=min(2, cores()) / 0.005,
                against_title="ideal",
                bound=Bound(0.93),
            )
        ],
        8,
    ),
    *(sleeps(children) for children in (8, 32, 64)),
    Step(
        "ours: a fresh process per task",
        SECTION,
        fresh_process,
        [
            Figure(
                "ours.recycle", "no-op in a fresh process each (--recycle 1)", "/s", "floor.fork", bound=at_least(0.6)
            )
        ],
        9,
    ),
)
