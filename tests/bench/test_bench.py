"""The benchmark: its file goes on where it was, its tables say what was reached, its command measures and cleans up."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from reproq.bench.figures import Figure, Results, Series, Step, Values, at_least, at_most
from reproq.bench.lab import Lab
from reproq.bench.record import Record, read
from reproq.bench.report import markdown, number, verdict
from reproq.bench.sampler import Sample, Sampler
from reproq.cli.bench import command
from reproq.db.connect import connect
from tests.conftest import Database

ROOT = Path(__file__).parents[2]
SETTINGS = {"fsync": "on", "synchronous_commit": "on"}


def facts(**more: Any) -> dict[str, Any]:
    same = {"reproq": "1", "commit": "a", "machine": "m", "server": "s", "scale": 1, "disk": "", "python": "3"}
    return {**same, "at": time.time(), "psycopg": "3", "settings": SETTINGS, **more}


def nothing(_lab: Lab) -> Values:
    return {}


def test_an_unfinished_session_is_taken_up_and_a_cut_off_line_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "quick.partial.jsonl"
    record = Record.open(path, facts(), resume=True)
    record.add("one", {"a": 1.0}, 2)
    record.add("one", {"a": 3.0}, 2)
    record.leave_out("two", "no such thing")
    with path.open("a") as file:
        file.write('{"step": "thr')
    found = Record.open(path, facts(), resume=True)
    assert found.done == {"one": 2, "two": 1}
    assert found.results().value("a") == 2.0
    assert found.results().left_out == {"two": "no such thing"}


def test_a_session_of_another_machine_is_not_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "quick.partial.jsonl"
    Record.open(path, facts(), resume=True).add("one", {"a": 1.0}, 2)
    assert not Record.open(path, facts(machine="another"), resume=True).runs


def test_a_session_is_not_taken_up_when_a_fresh_one_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "quick.partial.jsonl"
    Record.open(path, facts(), resume=True).add("one", {"a": 1.0}, 2)
    assert not Record.open(path, facts(), resume=False).runs


def test_a_bound_is_judged_by_ratio_or_by_value() -> None:
    results = Results({"floor": Series((100.0,)), "ours": Series((39.0, 41.0, 45.0)), "memory": Series((61.0,))})
    assert verdict(Figure("ours", "ours", against="floor", bound=at_least(0.4)), results) == "reached"
    assert verdict(Figure("ours", "ours", against="floor", bound=at_least(0.5)), results) == "**missed**"
    assert verdict(Figure("memory", "memory", "MB", bound=at_most(60)), results) == "**missed**"
    assert verdict(Figure("ours", "ours", against="never", bound=at_least(0.4)), results) == ""


def test_the_table_names_machine_median_ratio_and_what_was_left_out(tmp_path: Path) -> None:
    record = Record.open(tmp_path / "a.jsonl", facts(machine="two cores"), resume=False)
    record.add("floor", {"floor": 1000.0}, 1)
    record.add("ours", {"ours": 700.0, "detail": {"foreign cores": 0.9}}, 1)
    record.leave_out("peer", "can't be had")
    ours = Figure("ours", "no-op", against="floor", bound=at_least(0.4))
    steps = [Step("floor", "F", nothing, [Figure("floor", "bare")]), Step("ours", "O", nothing, [ours])]
    text = markdown(record, steps)
    for part in (
        "two cores",
        "| no-op | 700/s |  | 0.700 | bare (1,000/s) | ≥ 0.4 × | reached |",
        "can't be had",
        "0.90",
    ):
        assert part in text


def test_numbers_are_short() -> None:
    assert [number(value, "/s") for value in (12345.6, 12.34, 1.234)] == ["12,346/s", "12.3/s", "1.23/s"]
    assert number(None) == "–"


def bench_command(database: Database, results: Path, *more: str) -> list[str]:
    command = [sys.executable, "-m", "reproq", "bench", "--database-url", database.dsn, "--scale", "0.01", "--plain"]
    return [*command, "--repeats", "1", "--results", str(results), *more]


def bench(database: Database, results: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        bench_command(database, results, *more), cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_command_measures_on_a_given_server_and_leaves_nothing_there(database: Database, tmp_path: Path) -> None:
    before = everything(database)
    done = bench(database, tmp_path, "--only", "claim and finish", "--only", "ours: no-op")
    assert done.returncode == 0, done.stdout + done.stderr
    raw = next(tmp_path.glob("*-quick.jsonl"))
    record = read(raw)
    assert record is not None
    assert {run["step"] for run in record.runs if "values" in run} == {"floor: claim and finish", "ours: no-op"}
    assert "to" in (tmp_path / "latest.md").read_text()
    assert everything(database) == before


def test_the_next_bench_removes_what_a_killed_one_left_and_nothing_of_one_that_runs(
    database: Database, tmp_path: Path
) -> None:
    killed, running = "reproq_bench_dead_", "reproq_bench_beef_"
    for prefix in (killed, running):
        database.execute(f"create database {prefix}template")
        database.execute(f"create role {prefix}app")
    with connect(database.dsn, name=running):
        done = bench(database, tmp_path, "--only", "floor: claim and finish")
        assert done.returncode == 0, done.stdout + done.stderr
        assert [name for (name,) in everything(database)] == [f"{running}template", f"{running}app"]
    assert bench(database, tmp_path, "--only", "floor: claim and finish", "--fresh").returncode == 0
    assert everything(database) == []


def test_whoever_presses_ctrl_c_again_and_again_leaves_nothing_on_the_server(
    database: Database, tmp_path: Path
) -> None:
    command = bench_command(database, tmp_path, "--only", "ours")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        next(line for line in running.stdout if "ours: " in line)
        while running.poll() is None:
            running.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                running.wait(0.005)
    assert running.returncode in (130, -signal.SIGINT)  # the last one may come when Python has nobody left to tell
    assert everything(database) == []


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--scale", "nan"], "nan is not a number"),
        (["--minutes", "-1"], "-1.0 is not in the range"),
        (["--minutes", "nan"], "nan is not a number"),
        (["--database-url", ""], "--database-url is empty"),
        (["--results", "/proc/nope/there"], "no folder can be made at /proc/nope/there"),
        (["--only", "no such step"], "no step's name holds no such step"),
        (["--only", ""], "no step's name holds ''"),
        (["--list", "--only", "no such step"], "no step's name holds no such step"),
    ],
)
def test_bad_flags_get_one_clear_error(flags: list[str], says: str) -> None:
    done = CliRunner().invoke(command, flags)
    said = done.output + str(done.exception)
    assert done.exit_code != 0
    assert says in said


def test_looks_that_are_too_near_to_each_other_say_nothing_of_cpu() -> None:
    """A trial of a third of a second: two looks behind its work said that it had cost nothing."""

    def at(moment: float) -> Sample:
        return Sample(moment, {}, {}, {}, 0.0, 0.0)

    looks = [at(moment) for moment in (9.9, 10.1, 10.4, 10.6, 11.2, 12.1)]
    sampler = Sampler(dict, looks)
    assert sampler.between(10, 11) is None
    assert sampler.between(20, 30) is None
    assert sampler.between(10, 12) == (looks[1], looks[4])


def test_the_list_shows_the_steps_that_were_asked_for() -> None:
    shown = CliRunner().invoke(command, ["--list", "--only", "db_function"]).output.splitlines()
    assert [line.split()[-3] for line in shown] == ["db_function"]


def everything(database: Database) -> list[tuple[Any, ...]]:
    """Databases and roles of the bench on this server."""
    return database.execute(
        "select datname from pg_database where datname ~ '^reproq_bench' union all "
        "select rolname from pg_roles where rolname ~ '^reproq_bench'"
    )
