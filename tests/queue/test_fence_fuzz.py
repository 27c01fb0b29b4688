"""A stolen worker login guesses fences: a hundred thousand calls change no row it does not hold and tell nothing."""

from __future__ import annotations

from typing import Any

import pytest
from psycopg.types.json import Jsonb

from reproq.db.connect import Connection, as_sql

from .conftest import Queue, refused

CALLS = 100_000
HOLDER = "host/17/9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"
# What a thief can guess: names and pids of workers, small claim numbers, every id. Not the last part of a worker's id.
ARGUMENTS = """
    select 1 + floor(random() * 60)::bigint as id, floor(random() * 4)::bigint as claim_no,
           (array['host/17', 'host/17/', 'host/17/_', 'host/17/' || gen_random_uuid(), '', 'thief/1/x', null,
                  'HOST/17/', repeat('x', 300), left(%(holder)s, -1), %(holder)s || ' ']
           )[1 + floor(random() * 11)::integer] as worker
    from generate_series(1, %(calls)s)"""
# Each call answers one word. The casts keep the volatile arguments in one place: evaluated once per call.
DOORS = {
    "start": "(select f.answer from queues.start(a.worker, array[a.id], array[a.claim_no]) f)",
    "heartbeat": "(select f.answer from queues.heartbeat("
    "coalesce(nullif(a.worker, ''), 'w'), array[a.id], array[a.claim_no], '30 s') f)",
    "give_back": "(select f.answer from queues.give_back(a.worker, array[a.id], array[a.claim_no]) f)",
    "finish": "(select f.answer from queues.finish(a.worker, jsonb_build_array(jsonb_build_object("
    "'id', a.id, 'claim_no', a.claim_no, 'success', a.id & 1 = 0, 'error', 'x'))) f)",
    "succeed": "internal.succeed(a.worker, a.id, a.claim_no, 'null', 1)",
    "complete_task": "queues.complete_task(a.id, a.worker, a.claim_no)",
    "fail_task": "queues.fail_task(a.id, a.worker, a.claim_no, 'x')",
    "recall": "queues.recall(a.worker, '{}', '{}')::text",
}
STATE = "select md5(string_agg(t::text, '|' order by t.id)) from queues.task_runs t"


def furnish(q: Queue) -> None:
    """Rows in every state, held by somebody else or by nobody. Ids 1 … 60 are tried, so some of them don't exist."""
    q.rows("alter table queues.task_runs alter column id restart with 1")
    for number in range(24):
        held = q.claimed("t", worker=HOLDER, max_attempts=1 + number % 3)
        match number % 6:
            case 0:
                q.start(held)
            case 1:
                q.cancel(held.id)
            case 2:
                q.succeed(held)
            case 3:
                q.fail(held)
            case 4:
                q.soft_delete(held.id)
    for _ in range(10):
        q.enqueue()


def guess(q: Queue, thief: Connection, door: str, calls: int) -> dict[str, int]:
    statement = f"select {DOORS[door]} as answer, count(*) as times from ({ARGUMENTS} offset 0) a group by 1"
    with thief.cursor() as cursor:
        cursor.execute(
            as_sql(statement),
            {"holder": HOLDER, "calls": calls},
        )
        return {str(answer): int(str(times)) for answer, times in cursor.fetchall()}


@pytest.mark.parametrize("door", DOORS)
def test_guessed_fences_change_nothing_and_all_sound_alike(q: Queue, door: str) -> None:
    furnish(q)
    before, events = q.value(STATE), q.value("select count(*) from queues.task_events")
    heard = guess(q, q.database.connect("worker"), door, CALLS // len(DOORS))
    assert heard == {"0" if door == "recall" else "lost": CALLS // len(DOORS)}
    assert (q.value(STATE), q.value("select count(*) from queues.task_events")) == (before, events)


def test_the_guesses_would_hit_if_the_fence_were_known(q: Queue) -> None:
    """Else the test above would prove nothing."""
    furnish(q)
    thief = q.database.connect("worker")
    heard: dict[str, Any] = {}
    for door in ("start", "heartbeat", "finish"):
        known = "select id, claim_no, %s as worker from unnest(%s::bigint[], %s::bigint[]) k(id, claim_no)"
        statement = f"select {DOORS[door]} from ({known}) a"
        ids = [
            row["id"] for row in q.rows("select id from queues.task_runs where leased_until is not null order by id")
        ]
        rows = thief.execute(as_sql(statement), [HOLDER, ids, [1] * len(ids)]).fetchall()
        heard[door] = {row[0] for row in rows}
    assert heard == {
        "start": {"kept", "cancelled"},
        "heartbeat": {"kept", "cancelled"},
        "finish": {"done", "cancelled"},
    }


def test_a_row_that_exists_and_one_that_never_did_are_told_alike(q: Queue) -> None:
    held = q.claimed("t", worker=HOLDER)
    thief = q.database.connect("worker")
    for door in DOORS:
        statement = f"select {DOORS[door]} from (select %s::bigint as id, %s::bigint as claim_no, 'thief' as worker) a"
        answers = {
            thief.execute(as_sql(statement), [task_id, claim_no]).fetchone()
            for task_id in (held.id, held.id + 1000, -1, 2**62)
            for claim_no in (1, 2, 0, -1)
        }
        assert len(answers) == 1, door


def test_a_name_with_a_nul_never_reaches_the_dispatcher(q: Queue) -> None:
    worker = q.database.connect("worker")
    result = worker.pgconn.exec_params(
        b"select internal.run_function($1, '{}')", [b"shop.ok\0; drop"], param_formats=[1]
    )
    assert b"invalid byte sequence" in result.error_message
    code, _, _ = refused(lambda: q.rows("select internal.run_function(%s, %s)", "a.b", Jsonb({"x": "\0"}), by=worker))
    assert code in ("22P05", "22021")


def test_a_payload_is_bound_and_never_read_as_sql(q: Queue) -> None:
    worker = q.database.connect("worker")
    hostile = {"'); drop table queues.task_runs; --": '$1 %I %s $$ \\ " '}
    assert refused(lambda: q.rows("select internal.run_function('no.no', %s)", Jsonb(hostile), by=worker))[0] == "RQ005"
    assert q.count() == 0
