"""Facts are added and stay; the two ways in which what a message said may go."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from .conftest import Post

KINDS = ("", "_scheduled", "_started", "_succeeded", "_failed", "_unknown", "_decided", "_ended", "_resolved")


def _lived(post: Post) -> int:
    """A send with facts of most kinds."""
    send = post.send()
    post.supervise(send)
    first = post.take()
    post.begin(first)
    post.fail(first)
    post.supervise(send)
    second = post.take()
    post.begin(second)
    post.die(second)
    post.supervise(send)
    return send


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change", ["update comms.{} set created_at = now()", "delete from comms.{}", "truncate comms.{} cascade"]
)
def test_not_even_their_owner_changes_facts(post: Post, kind: str, change: str) -> None:
    _lived(post)
    table = post.channel.root + kind
    post.rows("set role reproq_owner")
    with pytest.raises(psycopg.Error, match="holds facts"):
        post.rows(change.format(table))


def test_an_attempt_has_one_outcome_whoever_writes_it(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    post.fail(attempt)
    values = (attempt.payload["attempt_id"], send)
    for kind, more in (("succeeded", ""), ("failed", ", kind, permanent")):
        extra = ", 'x', false" if more else ""
        with pytest.raises(psycopg.Error, match="has an outcome already"):
            post.rows(
                f"insert into comms.{post.channel.root}_{kind} (attempt_id, {post.channel.id_name}{more})"
                f" values (%s, %s{extra})", *values,
            )  # fmt: skip


@pytest.mark.parametrize(
    "spoil",
    [
        lambda post, payload: payload | {"attempt_id": payload["attempt_id"] + 1},
        lambda post, payload: payload | {post.channel.id_name: payload[post.channel.id_name] + 1},
        lambda post, payload: payload | {"execution": {"task_run_id": 12345}},
        lambda post, payload: {},
    ],
    ids=["another attempt", "another send", "another task", "nothing"],
)
def test_outcomes_are_recorded_for_the_attempt_they_belong_to_only(
    post: Post, spoil: Callable[[Post, dict[str, object]], dict[str, object]]
) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    forged = psycopg.types.json.Jsonb(
        {"original_payload": spoil(post, attempt.payload), "worker_payload": {}, "error": "x"}
    )
    for handler in ("success", "failure"):
        name = f"comms.record_{post.channel.name}_{handler}"
        answer = post.value("select internal.run_function(%s, %s)", name, forged, by=post.worker)
        assert answer["validation_failure_message"]
    assert (post.count("succeeded"), post.count("failed")) == (0, 0)


def test_an_attempt_that_was_not_started_has_no_success(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    answer = post.record("success", attempt, worker_payload={})
    assert "was not started" in answer["validation_failure_message"]


def test_whoever_names_a_handler_or_calls_it_by_hand_speaks_for_no_attempt(post: Post) -> None:
    """A stolen login of a worker, a process author: neither reads another's message nor forges its facts."""
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    plain = {name: attempt.payload[name] for name in (post.channel.id_name, "attempt_id")}
    guesses = [plain, plain | {"execution": {}}, plain | {"execution": {"task_run_id": attempt.id, "claim_no": 1}}]
    guesses += [plain | {"execution": {"task_run_id": attempt.id, "claim_no": 1, "token": "x"}}]
    for guess in guesses:
        for name, payload in (
            (f"get_{post.channel.name}_payload", guess),
            (f"record_{post.channel.name}_success", {"original_payload": guess, "worker_payload": {}}),
            (f"record_{post.channel.name}_failure", {"original_payload": guess, "error": {"permanent": True}}),
        ):
            document = psycopg.types.json.Jsonb(payload)
            answer = post.value("select internal.run_function(%s, %s)", f"comms.{name}", document, by=post.worker)
            assert "names no attempt" in answer["validation_failure_message"]
    assert (post.count("started"), post.count("succeeded"), post.count("failed")) == (0, 0, 0)
    assert post.begin(attempt)["outcome"]["success"]


def test_erasing_a_message_erases_its_retries(post: Post) -> None:
    send = post.send(", max_attempts => 1")
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    post.fail(attempt)
    post.supervise(send)
    post.rows(f"select comms.retry_{post.channel.name}(%s)", send)
    post.rows("select comms.erase_message(%s, 'asked for')", post.status(send)["message_id"])
    text = str(post.rows(f"select * from comms.{post.channel.name}_message"))
    assert "ada@" not in text
    assert "+4917" not in text


def test_an_attempt_starts_once(post: Post) -> None:
    """A second task that names the same attempt gets no message to send."""
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    assert post.begin(attempt)["outcome"]["success"]
    again = post.begin(attempt)["outcome"]
    assert (again["success"], again["kind"]) == (False, "validation")
    assert post.count("started") == 1


def test_an_erased_message_says_nothing_and_its_facts_stay(post: Post) -> None:
    send = _lived(post)
    message = post.status(send)["message_id"]
    post.rows("select comms.erase_message(%s, 'asked for')", message)
    assert post.value("select comms.erase_message(%s, 'again')", message) == "erased_before"
    text = str(post.rows(f"select * from comms.{post.channel.name}_message"))
    assert "ada@" not in text and "+4917" not in text and "Hi" not in text
    assert post.rows(f"select * from comms.{post.channel.root}_note") == []
    assert post.rows("select answer from queues.channel_call where answer ? 'error'") == []
    assert (post.count("scheduled"), post.count("failed")) == (2, 1)
    assert [row["reason"] for row in post.rows("select reason from comms.message_erased")] == ["asked for"]


def test_a_message_that_was_erased_is_not_sent(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.rows("select comms.erase_message(%s, 'asked for')", post.status(send)["message_id"])
    outcome = post.begin(attempt)["outcome"]
    assert (outcome["success"], outcome["kind"]) == (False, "validation")
    post.fail(attempt, "validation", permanent=True)
    post.supervise(send)
    assert post.ended(send) == ("failed", "validation")


def test_what_ended_long_ago_can_be_purged_and_nothing_else(post: Post) -> None:
    old, young, open_ = _lived(post), post.send(), post.send()
    post.value(f"select comms.cancel_{post.channel.name}(%s)", young, by=post.app)
    table = f"comms.{post.channel.root}_ended"
    post.rows(f"alter table {table} disable trigger facts_stay")
    post.rows(f"update {table} set created_at = now() - interval '91 days' where {post.channel.id_name} = %s", old)
    post.rows(f"alter table {table} enable trigger facts_stay")
    assert post.value("select internal.purge_processes(now() - interval '90 days')") == 1
    left = {row["id"] for row in post.rows(f"select {post.channel.id_name} as id from comms.{post.channel.root}")}
    assert left == {young, open_}
    assert post.value("select count(*) from comms.message") == 2
    with pytest.raises(psycopg.Error, match="holds facts"):
        post.rows(f"delete from {table}")


@pytest.mark.parametrize("role", ["app", "worker"])
def test_neither_an_app_nor_a_worker_may_purge_or_touch_a_fact(post: Post, role: str) -> None:
    connection = post.app if role == "app" else post.worker
    for statement in (
        "select internal.purge_processes('2000-01-01')",
        f"select * from comms.{post.channel.root}_failed",
        f"insert into comms.{post.channel.root}_ended values (1, 'failed')",
        "select comms.erase_message(1, 'x')",
        f"select comms.resolve_{post.channel.name}(1, 'sent')",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            post.rows(statement, by=connection)
