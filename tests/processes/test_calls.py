"""The three commits around the call of a provider, under the fence; and tasks that no process supervises."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from .conftest import WORKER, Attempt, Post


def _bare(mail: Post, **payload: object) -> Attempt:
    """An email task without a process and without handlers."""
    message = {"to": "ada@example.org", "subject": "x", "text": "y"} | payload
    mail.rows("select queues.enqueue_system('email', %s)", Jsonb(message))
    return mail.take()


def test_a_task_without_a_before_handler_is_its_own_message(mail: Post) -> None:
    begun = mail.begin(_bare(mail))
    assert (begun["state"], begun["outcome"]["payload"]["to"]) == ("new", "ada@example.org")


def test_an_execution_after_an_answer_is_told_the_answer_and_calls_nobody(mail: Post) -> None:
    first = _bare(mail)
    mail.begin(first)
    mail.keep(first, {"provider": "test", "provider_message_id": "m1"})
    mail.die(first)
    mail.rows("update queues.task_runs set run_after = now()")
    assert mail.begin(mail.take()) == {"state": "answered", "answer": {"provider": "test", "provider_message_id": "m1"}}


def test_an_execution_after_a_call_without_answer_knows_of_it(mail: Post) -> None:
    first = _bare(mail)
    mail.begin(first)
    mail.die(first)
    mail.rows("update queues.task_runs set run_after = now()")
    again = mail.begin(mail.take())
    assert again["state"] == "begun"
    assert again["since"] > 0


def test_an_execution_after_a_refusal_starts_anew(mail: Post) -> None:
    first = _bare(mail)
    mail.begin(first)
    mail.fail(first)
    mail.rows("update queues.task_runs set run_after = now()")
    assert mail.begin(mail.take())["state"] == "new"


def test_a_call_of_which_nobody_knows_is_not_made_known_by_a_later_failure(texts: Post) -> None:
    """A text message may have arrived; then looking for it fails. The next execution still has to look."""
    texts.rows(
        "select queues.enqueue_system('sms', %s, max_attempts => 9)", Jsonb({"to": "+4917012345678", "body": "Hi"})
    )
    lost = texts.take()
    texts.begin(lost)
    texts.fail(lost, "unknown")
    since = texts.value("select extract(epoch from begun_at)::float8 from queues.channel_call")
    for kind in ("provider_unavailable", "unknown", "provider_unavailable"):
        texts.rows("update queues.task_runs set run_after = now()")
        attempt = texts.take()
        begun = texts.begin(attempt)
        assert (begun["state"], begun["since"]) == ("begun", pytest.approx(since))
        texts.fail(attempt, kind)


@pytest.mark.parametrize(("age", "forgotten"), [("22 h 59 min", False), ("23 h 1 min", True)])
def test_the_database_says_whether_a_repetition_could_be_a_second_send(mail: Post, age: str, forgotten: bool) -> None:
    lost = _bare(mail)
    mail.begin(lost)
    mail.die(lost)
    mail.rows("update queues.channel_call set begun_at = now() - %s::interval", age)
    mail.rows("update queues.task_runs set run_after = now()")
    assert mail.begin(mail.take())["key_may_be_forgotten"] == forgotten


def test_a_before_handler_that_fails_leaves_no_mark(mail: Post) -> None:
    attempt = _bare(mail, before_handler="comms.nobody")
    outcome = mail.begin(attempt)["outcome"]
    assert (outcome["success"], outcome["kind"]) == (False, "no_handler_registered")
    assert mail.rows("select * from queues.channel_call") == []


def test_an_answer_is_kept_once(mail: Post) -> None:
    attempt = _bare(mail)
    mail.begin(attempt)
    assert mail.keep(attempt, {"n": 1}) == "kept"
    assert mail.keep(attempt, {"n": 1}) == "kept"
    assert mail.keep(attempt, {"n": 2}) == "already"
    assert mail.value("select answer from queues.channel_call") == {"n": 1}


@pytest.mark.parametrize("wrong", ["id", "claim_no", "worker"])
def test_without_the_fence_nothing_is_begun_kept_or_put_on_record(mail: Post, wrong: str) -> None:
    held = _bare(mail)
    task = held.id + (wrong == "id")
    claim_no = held.claim_no + (wrong == "claim_no")
    worker = "w/1/other" if wrong == "worker" else WORKER
    by = mail.worker
    assert mail.value("select queues.channel_state(%s, %s, %s)", task, claim_no, worker, by=by) == {"state": "lost"}
    assert mail.value("select queues.channel_begin(%s, %s, %s)", task, claim_no, worker, by=by) is False
    assert mail.value("select queues.channel_result(%s, %s, '{}', %s)", task, claim_no, worker, by=by) == "lost"
    assert mail.value("select queues.channel_error(%s, %s, %s, null, 'x')", task, claim_no, worker, by=by) is False
    assert mail.rows("select * from queues.channel_call") == []
    assert mail.rows("select * from queues.error") == []


def test_an_error_is_on_record_and_the_handler_hears_of_it(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    assert post.fail(attempt)["success"]
    (error,) = post.rows("select task_id, source, message from queues.error")
    assert error == {"task_id": attempt.id, "source": post.channel.name, "message": "provider_refused"}


def test_a_success_handler_that_fails_is_on_record(mail: Post) -> None:
    attempt = _bare(mail, success_handler="comms.record_email_success")
    mail.begin(attempt)
    assert mail.succeed(attempt)["success"] is False
    (error,) = mail.rows("select function_name, message from queues.error")
    assert error["function_name"] == "comms.record_email_success"


def test_a_worker_in_another_language_sends_by_the_functions_alone(post: Post) -> None:
    """Take a task, call what its payload names with the payload, end the task: until nothing is left."""
    send = post.send()
    sent = []

    def call(name: str, payload: object) -> dict[str, Any]:
        answer = post.value("select internal.run_function(%s, %s)", name, Jsonb(payload), by=post.worker)
        assert answer["success"], answer
        return dict(answer)

    while tasks := post.rows("select * from queues.dequeue_next_available_task()", by=post.worker):
        (task,) = tasks
        payload = task["payload"]
        if task["task_type"] == "db_function":
            call(payload["db_function"], payload)
        else:
            sent.append(call(payload["before_handler"], payload)["payload"])
            if len(sent) == 1:
                call(payload["error_handler"], {"original_payload": payload, "error": "451 try again"})
            else:
                answer = {"provider": "own", "provider_message_id": "m2"}
                call(payload["success_handler"], {"original_payload": payload, "worker_payload": answer})
        fence = (task["id"], task["worker_id"], task["claim_no"])
        assert post.value("select queues.complete_task(%s, %s, %s, null)", *fence, by=post.worker) == "done"
        post.rows("update queues.task_runs set run_after = now() where status = 'PENDING'")
    status = post.status(send)
    assert (status["state"], status["attempts"], status["failures"]) == ("succeeded", 2, 1)
    assert sent[0]["key"] == sent[1]["key"]
    assert status["provider_message_id"] == "m2"


def test_an_app_can_not_name_handlers_that_it_may_not_run(mail: Post) -> None:
    for payload in (
        {},
        {"x_handler": None},
        {"before_handler": "comms.get_email_payload"},
        {"success_handler": "comms.record_email_success", "send_email_task_id": 1},
    ):
        with pytest.raises(psycopg.Error):
            mail.rows("select queues.enqueue('email', %s)", Jsonb(payload), by=mail.app)
