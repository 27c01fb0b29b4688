"""queues.overview and queues.names: what an operator's screen and a shell's completion may know, at a bounded cost."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import psycopg
import pytest

from reproq.db.connect import Connection

from .conftest import Queue, refused


@pytest.fixture
def login(q: Queue) -> Iterator[Callable[[str], Connection]]:
    """A login that is a member of one role and nothing else."""
    made: list[tuple[str, Connection]] = []

    def make(role: str) -> Connection:
        name = f"looks_{role}_{os.getpid()}"
        q.rows(f"create role {name} login password 'x' in role {role}")
        made.append((name, psycopg.connect(q.database.dsn, user=name, password="x", autocommit=True)))
        return made[-1][1]

    yield make
    for name, conn in made:
        conn.close()
        q.rows(f"drop role {name}")


def overview(q: Queue, arguments: str = "") -> dict[str, dict[str, int]]:
    (row,) = q.rows(f"select queues.overview({arguments}) as told")
    return {queue["name"]: queue for queue in row["told"]["queues"]}


def test_each_queue_tells_how_it_stands(q: Queue) -> None:
    q.rows("select queues.enqueue_many('t', array_fill('{}'::jsonb, array[5]), now() - interval '1 minute')")
    q.rows("select queues.enqueue('t', priority => 9, scheduled_at => now() - interval '1 hour')")
    q.rows("select queues.enqueue('t', scheduled_at => now() + interval '1 hour')")
    (parent,) = q.rows("select queues.enqueue('other', queue_name => 'parents') as id")
    q.rows("select queues.enqueue('t', after => array[%s]::bigint[])", parent["id"])
    q.rows("select queues.claim('w/1/x', '{default}', null, '30 s', 2, null)")
    default = overview(q, "0")["default"]
    counts = {name: default[name] for name in ("ready", "later", "waiting", "running", "dead", "came")}
    assert counts == {"ready": 4, "later": 1, "waiting": 1, "running": 2, "dead": 0, "came": 8}
    assert 59 <= default["oldest_s"] < 3000


def test_counts_end_at_the_bound(q: Queue) -> None:
    q.rows("select queues.enqueue_many('t', array_fill('{}'::jsonb, array[50]))")
    q.rows("select queues.enqueue_many('u', array_fill('{}'::jsonb, array[50]), now() + interval '1 h')")
    told = overview(q, "0, 10")["default"]
    assert (told["ready"], told["later"], told["came"]) == (10, 10, 10)


def test_dead_letters_are_those_of_nobody_s_supervisor(q: Queue) -> None:
    for supervised in (True, False, False):
        q.rows(
            "insert into queues.task_runs (task_type, spec_hash, status, failure_kind, completed_at, supervised)"
            " values ('t', '', 'FAILED', 'raised', now(), %s)",
            supervised,
        )
    assert overview(q)["default"]["dead"] == 2


def test_a_worker_is_shown_without_its_fence(q: Queue) -> None:
    q.rows("select queues.register_worker('db1/17/c0ffee', 'db1', 17, '0.1', '{a}', '{t.}', 2, '{}')")
    (row,) = q.rows("select queues.overview()::text as told, queues.overview() -> 'workers' -> 0 as worker")
    assert "c0ffee" not in row["told"]
    assert (row["worker"]["name"], row["worker"]["children"], row["worker"]["holds"]) == ("db1/17", 2, 0)


@pytest.mark.parametrize(
    ("role", "looks", "names"),
    [
        ("reproq_reader", True, True),
        ("worker_service_user", True, True),
        ("reproq_app", False, True),
        ("reproq_dispatcher", False, False),
    ],
)
def test_who_may_look(q: Queue, login: Callable[[str], Connection], role: str, looks: bool, names: bool) -> None:
    conn = login(role)
    for statement, may in (("select queues.overview()", looks), ("select queues.names('queue')", names)):
        if may:
            conn.execute(statement)
        else:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(statement)


def test_names_start_as_asked_and_are_few(q: Queue) -> None:
    q.rows("select queues.register_worker('w/1/x', 'w', 1, '1', '{slow,bulk}', null, 1, '{\"shop.pay\": {}}')")
    q.rows("select queues.enqueue('t', queue_name => 'bulky')")
    assert [row["names"] for row in q.rows("select queues.names('queue', 'bul')")] == ["bulk", "bulky"]
    assert [row["names"] for row in q.rows("select queues.names('type')")] == ["shop.pay"]


def test_names_are_plain_ones_since_they_go_into_a_shell_s_command_line(q: Queue) -> None:
    served = ["plain", "x;reboot", "$(reboot)", "-rf", "a b"]
    q.rows("select queues.register_worker('w/1/x', 'w', 1, '1', %s, null, 1, '{}')", served)
    assert {row["names"] for row in q.rows("select queues.names('queue')")}.intersection(served) == {"plain"}


@pytest.mark.parametrize(
    ("worker", "host", "names"),
    [("w\n/1/x", "h", ["a"]), ("w/1/x", "h\x1b[31m", ["a"]), ("w/1/x", "h", ["a\x07"]), ("w/1/x", "h", ["a", None])],
)
def test_a_worker_says_of_itself_what_people_can_be_shown(
    q: Queue, worker: str, host: str, names: list[str | None]
) -> None:
    statement = "select queues.register_worker(%s, %s, 1, '1', %s, %s, 1, '{}')"
    assert refused(lambda: q.rows(statement, worker, host, names, None))[0] == "RQ003"
    assert refused(lambda: q.rows(statement, worker, host, None, names))[0] == "RQ003"
    assert q.rows("select from queues.workers") == []


def test_a_schedule_s_name_is_told_to_its_owner_only(q: Queue, login: Callable[[str], Connection]) -> None:
    q.rows("select queues.put_schedule('mine', 't', cron => '0 0 * * *')")
    assert [row["names"] for row in q.rows("select queues.names('schedule')")] == ["mine"]
    assert login("reproq_app").execute("select queues.names('schedule')").fetchall() == []
    q.rows("select queues.drop_schedule('mine')")


def test_nonsense_is_refused(q: Queue) -> None:
    for statement in ("select queues.overview(null, 0)", "select queues.names('shelf')"):
        assert refused(lambda s=statement: q.rows(s))[0] == "RQ003"  # type: ignore[misc]
