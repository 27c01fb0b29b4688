"""One send from kickoff to its end, attempt by attempt."""

from __future__ import annotations

import json

import psycopg
import pytest

from .conftest import Post


def test_a_send_that_is_accepted_ends_with_one_attempt(post: Post) -> None:
    send = post.send()
    assert "send: attempt 1" in post.supervise(send)["decided"]
    attempt = post.take()
    message = post.begin(attempt)["outcome"]["payload"]
    assert message["to"] in ("ada@example.org", "+4917012345678")
    assert post.succeed(attempt)["success"]
    assert post.supervise(send)["decided"] == "end succeeded"
    assert post.ended(send) == ("succeeded", None)
    status = post.status(send)
    assert (status["state"], status["attempts"], status["provider_message_id"]) == ("succeeded", 1, "m1")


def test_a_failed_attempt_is_repeated_under_the_same_key(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    first = post.take()
    key = post.begin(first)["outcome"]["payload"]["key"]
    post.fail(first)
    post.supervise(send)
    second = post.take()
    assert second.payload["attempt_id"] != first.payload["attempt_id"]
    assert post.begin(second)["outcome"]["payload"]["key"] == key
    post.succeed(second)
    post.supervise(send)
    assert post.ended(send) == ("succeeded", None)
    assert (post.count("scheduled"), post.count("started"), post.count("failed"), post.count("succeeded")) == (
        2,
        2,
        1,
        1,
    )


def test_a_failure_that_nothing_can_mend_ends_the_send_at_once(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    post.fail(attempt, permanent=True)
    post.supervise(send)
    assert post.ended(send) == ("failed", "provider_refused")


def test_a_send_ends_when_its_attempts_are_used_up(post: Post) -> None:
    send = post.send(", max_attempts => 2")
    for _ in range(2):
        post.supervise(send)
        attempt = post.take()
        post.begin(attempt)
        post.fail(attempt)
    post.supervise(send)
    assert post.ended(send) == ("failed", "attempts_used_up")


def test_an_attempt_that_never_reached_its_provider_uses_up_nothing(post: Post) -> None:
    send = post.send(", max_attempts => 1")
    for _ in range(30):  # more than the run limit
        post.supervise(send)
        attempt = post.take()
        post.begin(attempt)
        post.fail(attempt, "provider_unavailable")
    post.supervise(send)
    assert post.ended(send) is None
    attempt = post.take()
    post.begin(attempt)
    post.succeed(attempt)
    post.supervise(send)
    assert post.ended(send) == ("succeeded", None)


def test_what_the_provider_asks_for_puts_the_next_attempt_off(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    post.fail(attempt, "provider_unavailable", retry_after_s=900)
    assert "decided" not in post.supervise(send)
    (waiting,) = post.chain()
    assert 880 < waiting["due_in"].total_seconds() <= 900


def test_a_lost_attempt_that_never_started_is_replaced_and_costs_no_attempt(post: Post) -> None:
    send = post.send(", max_attempts => 1")
    post.supervise(send)
    post.die(post.take())
    assert post.supervise(send)["decided"] == "never started: attempt 1, send: attempt 2"
    assert [fact["kind"] for fact in post.facts("failed")] == ["never_started"]
    attempt = post.take()
    post.begin(attempt)
    post.succeed(attempt)
    post.supervise(send)
    assert post.ended(send) == ("succeeded", None)


def test_a_deleted_attempt_is_seen_as_lost(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    task = post.facts("scheduled")[0]["task_run_id"]
    post.rows("select queues.soft_delete(%s, 'by mistake')", task)
    assert post.supervise(send)["decided"] == "never started: attempt 1, send: attempt 2"


def test_a_lost_attempt_whose_answer_is_kept_is_recorded_and_nothing_is_sent_again(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    assert post.keep(attempt, {"provider": "test", "provider_message_id": "m7"}) == "kept"
    post.die(attempt)
    assert post.supervise(send)["decided"] == "recorded: attempt 1, end succeeded"
    assert post.status(send)["provider_message_id"] == "m7"
    assert post.count("scheduled") == 1


def test_a_lost_attempt_whose_refusal_is_kept_counts_as_that_failure(post: Post) -> None:
    send = post.send(", max_attempts => 1")
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    post.keep(attempt, {"error": {"kind": "provider_refused", "message": "no", "permanent": True}})
    post.die(attempt)
    post.supervise(send)
    assert post.ended(send) == ("failed", "provider_refused")


def test_an_attempt_of_which_nobody_knows_is_parked_and_resolved_by_a_person(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    post.die(attempt)
    assert post.supervise(send)["decided"] == "unknown: attempt 1, end unknown"
    assert post.ended(send) == ("unknown", "answer_lost")
    resolve = f"select comms.resolve_{post.channel.name}(%s, %s)"
    assert post.value(resolve, send, "sent") == "resolved"
    assert post.value(resolve, send, "not_sent") == "resolved_before"
    assert post.status(send)["resolution"] == "sent"


def test_an_unknown_attempt_is_resent_under_its_key_where_the_provider_remembers_it(post: Post) -> None:
    post.about = {"provider": "test", "resolves_by": "resend"}
    send = post.send()
    post.supervise(send)
    first = post.take()
    key = post.begin(first)["outcome"]["payload"]["key"]
    post.fail(first, "unknown")
    assert post.count("unknown") == 1
    assert "send: attempt 2" in post.supervise(send)["decided"]
    second = post.take()
    assert post.begin(second)["outcome"]["payload"]["key"] == key
    post.succeed(second)
    post.supervise(send)
    assert post.ended(send) == ("succeeded", None)


def test_an_unknown_attempt_is_not_resent_once_its_key_may_be_forgotten(post: Post) -> None:
    """Its task waited for a worker until the provider would take the same key for a new one."""
    post.about = {"provider": "test", "resolves_by": "resend"}
    send = post.send()
    post.supervise(send)
    first = post.take()
    post.begin(first)
    post.fail(first, "unknown")
    assert "send: attempt 2" in post.supervise(send)["decided"]
    waiting = post.take()
    with post.admin.transaction():
        post.rows("set local session_replication_role = replica")  # facts refuse to be changed
        for fact in ("started", "unknown"):
            post.rows(f"update comms.{post.channel.root}_{fact} set created_at = created_at - interval '23 hours'")
    outcome = post.begin(waiting)["outcome"]
    assert (outcome["success"], outcome["kind"]) == (False, "validation")
    assert "its key may be forgotten" in outcome["error"]
    post.fail(waiting, "validation", permanent=True)
    post.supervise(send)
    assert post.ended(send) == ("unknown", "key_expired")
    assert post.count("started") == 1


def test_what_can_be_looked_up_is_looked_up_before_it_is_resent(texts: Post) -> None:
    texts.about = {"provider": "test", "resolves_by": "lookup"}
    texts.rows("update comms.setting set check_base = '1 microsecond'")
    send = texts.send(", on_unknown => 'resend'")
    texts.supervise(send)
    texts.begin(lost := texts.take())
    texts.fail(lost, "unknown")
    assert texts.supervise(send)["decided"] == "lookup: attempt 2"
    texts.begin(look := texts.take())
    texts.succeed(look, "found")
    texts.supervise(send)
    assert texts.ended(send) == ("succeeded", None)
    assert [fact["purpose"] for fact in texts.facts("scheduled")] == ["send", "lookup"]


def test_an_unknown_attempt_is_looked_up_where_the_provider_can_be_asked(texts: Post) -> None:
    texts.about = {"provider": "test", "resolves_by": "lookup"}
    texts.rows("update comms.setting set check_base = '1 microsecond'")
    send = texts.send()
    texts.supervise(send)
    first = texts.take()
    assert "lookup" not in texts.begin(first)["outcome"]["payload"]
    texts.die(first)
    assert texts.supervise(send)["decided"] == "unknown: attempt 1, lookup: attempt 2"
    second = texts.take()
    assert texts.begin(second)["outcome"]["payload"]["lookup"]["since"] > 0
    texts.fail(second, "not_found")
    assert texts.supervise(send)["decided"] == "lookup: attempt 3"
    third = texts.take()
    texts.begin(third)
    texts.succeed(third, "found")
    texts.supervise(send)
    assert texts.status(send)["provider_message_id"] == "found"


def test_a_success_that_comes_late_is_a_success(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    post.fail(attempt, "unknown")
    post.supervise(send)
    assert post.ended(send) == ("unknown", "answer_lost")
    recorded = post.record("success", attempt, worker_payload={"provider_message_id": "late"})
    assert recorded["success"]
    assert (post.status(send)["state"], post.count("succeeded")) == ("succeeded", 1)


def test_two_successes_are_one(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    assert post.succeed(attempt)["success"]
    assert post._channel("channel_succeeded", attempt, "{}")["success"]
    assert post.count("succeeded") == 1


def test_the_run_limit_ends_a_send_that_decides_again_and_again(post: Post) -> None:
    post.rows("update comms.setting set run_limit = 5")
    send = post.send(", max_attempts => 3")
    for _ in range(20):
        post.supervise(send)
        if post.ended(send):
            break
        post.die(post.take())
    assert post.ended(send) == ("run_limit", "run_limit")
    assert post.count("scheduled") == 5
    assert post.status(send)["state"] == "run_limit"


def test_waiting_is_free(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    for _ in range(50):
        assert "decided" not in post.supervise(send)
    assert (post.count("decided"), post.count("scheduled")) == (1, 1)


def test_an_error_handler_that_hears_a_text_records_a_failure(post: Post) -> None:
    """As a worker in another language may send it."""
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    post._channel("channel_failed", attempt, '"the line is dead"', "x")
    (fact,) = post.facts("failed")
    assert (fact["kind"], fact["permanent"]) == ("provider_refused", False)
    assert [note["note"] for note in post.rows(f"select note from comms.{post.channel.root}_note")] == [
        "the line is dead"
    ]


def test_a_payload_that_names_no_send_is_refused_and_not_retried(post: Post) -> None:
    for wrong in ({}, {post.channel.id_name: 99}, {post.channel.id_name: "x"}, {post.channel.id_name: None}):
        for name in (f"send_{post.channel.name}_supervisor", f"get_{post.channel.name}_payload"):
            answer = post.value(
                "select internal.run_function(%s, %s)", f"comms.{name}", json.dumps(wrong), by=post.worker
            )
            assert answer["validation_failure_message"], (name, wrong)


def test_more_attempts_than_the_run_limit_are_made_if_asked_for(post: Post) -> None:
    post.rows("update comms.setting set run_limit = 2")
    send = post.send(", max_attempts => 4")
    for _ in range(4):
        post.supervise(send)
        attempt = post.take()
        post.begin(attempt)
        post.fail(attempt)
    post.supervise(send)
    assert post.ended(send) == ("failed", "attempts_used_up")


def test_only_the_provider_that_may_have_it_is_asked_again(post: Post) -> None:
    post.about = {"provider": "first", "resolves_by": "resend"}
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    post.fail(attempt, "unknown")
    post.supervise(send)
    post.about = {"provider": "second", "resolves_by": "park"}
    outcome = post.begin(post.take())["outcome"]
    assert (outcome["success"], outcome["kind"]) == (False, "validation")
    assert "only its own provider" in outcome["error"]


def test_a_send_of_days_ago_whose_task_is_lost_before_it_starts_is_still_sent(post: Post) -> None:
    send = post.send(", scheduled_at => now() - interval '3 days'")
    post.supervise(send)
    post.die(post.take())
    assert "send: attempt 2" in post.supervise(send)["decided"]


def test_what_was_resolved_as_sent_or_is_retried_already_is_not_sent_again(post: Post) -> None:
    retry = f"select comms.retry_{post.channel.name}(%s)"
    for resolution, message in (("sent", "was resolved as sent"), ("not_sent", None)):
        send = post.send()
        post.supervise(send)
        attempt = post.take()
        post.begin(attempt)
        post.die(attempt)
        post.supervise(send)
        post.rows(f"select comms.resolve_{post.channel.name}(%s, %s)", send, resolution)
        if message:
            with pytest.raises(psycopg.Error, match=message):
                post.rows(retry, send)
        else:
            post.rows(retry, send)
            with pytest.raises(psycopg.Error, match="is retried already"):
                post.rows(retry, send)
