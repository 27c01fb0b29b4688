"""One supervisor chain per process: it can't die, and it can't multiply."""

from __future__ import annotations

import datetime
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from psycopg.types.json import Jsonb

from reproq.db.connect import connect

from .conftest import WORKER, Post


def test_two_hundred_supervisors_at_the_same_instant_schedule_one_attempt_and_end_as_one_chain(post: Post) -> None:
    send = post.send()
    many, each = 10, 20
    gate = Barrier(many)

    def run(_number: int) -> None:
        with connect(post.database.worker_dsn, name="test") as worker:
            gate.wait(60)
            for _ in range(each):
                post.run_supervisor(send, by=worker)

    with ThreadPoolExecutor(many) as pool:
        list(pool.map(run, range(many)))
    assert (post.count("scheduled"), post.count("decided")) == (1, 1)
    assert len(post.chain()) == 1


def test_two_hundred_tasks_for_one_process_end_as_one_chain(post: Post) -> None:
    send = post.send()
    payload = Jsonb(
        {
            "task_type": "db_function",
            "db_function": f"comms.send_{post.channel.name}_supervisor",
            post.channel.id_name: send,
        }
    )
    post.rows("select queues.enqueue_system('db_function', %s) from generate_series(1, 200)", payload)
    while rows := post.rows(
        "select id, claim_no, payload_json from queues.claim(%s, null, array['db_function'], '30 s', 50, null, null)",
        WORKER, by=post.worker,
    ):  # fmt: skip
        for row in rows:
            post.rows(
                "select internal.run_task(%s, %s, %s, %s)", WORKER, row["id"], row["claim_no"], payload, by=post.worker
            )
    assert (post.count("scheduled"), len(post.chain())) == (1, 1)


def test_a_send_of_tomorrow_is_looked_at_tomorrow(post: Post) -> None:
    send = post.send(", scheduled_at => now() + interval '1 day'")
    (waiting,) = post.chain()
    assert waiting["due_in"] > datetime.timedelta(hours=23)
    post.supervise(send)
    (waiting,) = post.chain()
    assert waiting["due_in"] > datetime.timedelta(hours=23)
    assert post.count("scheduled") == 0


def test_an_outcome_brings_the_supervisor_forward(post: Post) -> None:
    post.rows("update comms.setting set check_base = '1 hour', check_cap = '1 hour'")
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    assert post.chain()[0]["due_in"] > datetime.timedelta(minutes=50)
    post.succeed(attempt)
    (waiting,) = post.chain()
    assert waiting["due_in"] <= datetime.timedelta(0)


def test_an_ended_process_has_no_chain(post: Post) -> None:
    send = post.send()
    assert post.value(f"select comms.cancel_{post.channel.name}(%s)", send, by=post.app) == "cancelled"
    assert post.chain() == []
    assert post.run_supervisor(send) == {}
    assert post.chain() == []
    assert post.rows("select * from internal.open_process") == []


def test_supervisors_are_made_to_last(post: Post) -> None:
    post.send()
    (waiting,) = post.chain()
    assert (waiting["unique_among"], waiting["max_attempts"], waiting["supervised"]) == ("waiting", 1000, True)


@pytest.mark.parametrize(
    "how", ["select queues.soft_delete(%s, 'by mistake')", "delete from queues.task_runs where id = %s"]
)
def test_a_process_whose_supervisor_was_deleted_is_resumed(post: Post, how: str) -> None:
    send = post.send()
    post.rows(how, post.chain()[0]["id"])
    assert post.chain() == []
    assert post.value("select comms.resume_supervisors()") == 1
    assert post.value("select comms.resume_supervisors()") == 0
    assert "send: attempt 1" in post.supervise(send)["decided"]


def test_a_leader_resumes_and_one_of_the_past_does_not(post: Post) -> None:
    post.send()
    post.rows("delete from queues.task_runs")
    (row,) = post.rows("select * from queues.lead(%s, '30 s')", WORKER, by=post.worker)
    assert post.value("select queues.keep_house(%s)", row["term"] - 1, by=post.worker) is None
    assert post.value("select queues.keep_house(%s)", row["term"], by=post.worker)["supervisors_resumed"] == 1
    assert len(post.chain()) == 1


def test_a_supervisor_that_fails_is_tried_again_and_its_process_finishes(post: Post) -> None:
    send = post.send()
    post.rows(f"alter table comms.{post.channel.root}_scheduled rename to away")
    task = post.chain()[0]["id"]
    for _ in range(3):
        with pytest.raises(AssertionError, match="does not exist"):
            post.supervise(send)
    assert post.rows("select status::text, attempt_count from queues.task_runs where id = %s", task) == [
        {"status": "RETRYING", "attempt_count": 3}
    ]
    post.rows(f"alter table comms.away rename to {post.channel.root}_scheduled")
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    post.succeed(attempt)
    post.supervise(send)
    assert post.ended(send) == ("succeeded", None)


def test_a_failing_supervisor_beside_a_waiting_one_gives_way(post: Post) -> None:
    """A claimed supervisor re-enqueues itself, then fails to finish: one of the two rows goes on."""
    send = post.send()
    (row,) = post.rows(
        "select id, claim_no from queues.claim(%s, null, array['db_function'], '30 s', 1, null, null)",
        WORKER,
        by=post.worker,
    )
    post.run_supervisor(send)
    outcome = Jsonb(
        [{"id": row["id"], "claim_no": row["claim_no"], "success": False, "error": "boom", "kind": "raised"}]
    )
    post.rows("select queues.finish(%s, %s)", WORKER, outcome, by=post.worker)
    assert len(post.chain()) == 1
    assert post.value("select status::text || ' ' || failure_kind from queues.task_runs where id = %s", row["id"]) == (
        "CANCELLED superseded"
    )


def test_supervised_rows_are_no_dead_letters_and_are_not_replayed(post: Post) -> None:
    send = post.send(", max_attempts => 1")
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    post.fail(attempt)
    assert post.rows("select * from queues.dead_letter") == []
    with pytest.raises(psycopg.Error, match="belongs to a supervised process"):
        post.rows("select queues.replay(%s)", attempt.id)
