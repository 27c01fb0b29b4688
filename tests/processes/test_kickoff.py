"""One call sends a message: in the caller's transaction, once per key, for the caller alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from reproq.db.connect import connect

from .conftest import Post

CREATE = {
    "email": "create_email_message('ada@example.org', 'Hi', text_body => 'x')",
    "sms": "create_sms_message('+491701234', 'x')",
}


def test_a_send_is_part_of_the_transaction_of_its_caller(post: Post) -> None:
    with pytest.raises(ZeroDivisionError), post.app.transaction():
        post.send()
        raise ZeroDivisionError
    assert post.rows("select * from comms.message") == []
    assert post.chain() == []


def test_the_second_call_with_a_key_answers_the_first_and_changes_nothing(post: Post) -> None:
    first = post.send(", idempotency_key => 'k'")
    assert post.send(", idempotency_key => 'k', max_attempts => 2") == first
    assert post.send(", idempotency_key => 'other'") != first
    assert len(post.rows("select * from comms.message")) == 2
    assert len(post.chain()) == 2


def test_many_callers_with_one_key_make_one_send(post: Post) -> None:
    def run(number: int) -> set[int]:
        ids = set()
        with connect(post.database.app_dsn, name="test") as app:
            for key in range(20):
                try:
                    with app.transaction():
                        send = post.send(f", idempotency_key => 'k{key}'", by=app)
                        if (number + key) % 3 == 0:
                            raise psycopg.Rollback
                        ids.add(send)
                except psycopg.Rollback:
                    pass
        return ids

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(run, range(8)))
    kept = {row["id"] for row in post.rows(f"select {post.channel.id_name} as id from comms.{post.channel.root}")}
    assert set().union(*answers) <= kept
    assert len(kept) == len(post.chain()) == 20
    assert len(post.rows("select * from comms.message")) == 20


def test_a_message_is_kicked_off_once(post: Post) -> None:
    message = post.value(f"select comms.{CREATE[post.channel.name]}", by=post.app)
    kickoff = f"select comms.kickoff_send_{post.channel.name}_task(%s, now() + interval '1 h')"
    first = post.value(kickoff, message, by=post.app)
    assert post.value(kickoff, message, by=post.app) == first
    assert len(post.chain()) == 1


def test_a_kickoff_needs_a_message_of_the_callers_own(post: Post) -> None:
    others = post.value(f"select comms.{CREATE[post.channel.name]}")
    for message in (others, 99, None):
        with pytest.raises(psycopg.Error, match=r"no .* message .* of yours"):
            post.rows(f"select comms.kickoff_send_{post.channel.name}_task(%s)", message, by=post.app)


def test_an_app_sees_and_cancels_its_own_sends_only(post: Post) -> None:
    others = post.send(by=post.admin)
    assert post.value(f"select comms.send_{post.channel.name}_status(%s)", others, by=post.app) is None
    assert post.value(f"select comms.cancel_{post.channel.name}(%s)", others, by=post.app) == "unknown"
    assert post.value(f"select comms.cancel_{post.channel.name}(%s)", 99, by=post.app) == "unknown"


def test_a_cancelled_send_is_not_sent(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    cancel = f"select comms.cancel_{post.channel.name}(%s)"
    assert post.value(cancel, send, by=post.app) == "cancelled"
    assert post.value(cancel, send, by=post.app) == "cancelled"
    assert post.begin(attempt)["outcome"]["success"] is False
    post.fail(attempt, "validation", permanent=True)
    post.supervise(send)
    assert post.ended(send) == ("cancelled", "asked_for")
    assert (post.count("started"), post.count("failed")) == (0, 0)


def test_what_is_on_its_way_can_not_be_cancelled(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    assert post.value(f"select comms.cancel_{post.channel.name}(%s)", send, by=post.app) == "too_late"
    post.succeed(attempt)
    assert post.value(f"select comms.cancel_{post.channel.name}(%s)", send, by=post.app) == "too_late"


def test_a_send_that_failed_between_attempts_can_be_cancelled(post: Post) -> None:
    send = post.send()
    post.supervise(send)
    attempt = post.take()
    post.begin(attempt)
    post.fail(attempt)
    assert post.value(f"select comms.cancel_{post.channel.name}(%s)", send, by=post.app) == "cancelled"


def test_a_send_that_ended_without_success_is_retried_as_a_new_one(post: Post) -> None:
    send = post.send(", max_attempts => 1")
    retry = f"select comms.retry_{post.channel.name}(%s)"
    with pytest.raises(psycopg.Error, match="is not one that ended without success"):
        post.rows(retry, send)
    post.supervise(send)
    attempt = post.take()
    key = post.begin(attempt)["outcome"]["payload"]["key"]
    post.fail(attempt)
    post.supervise(send)
    again = post.value(retry, send)
    post.supervise(again)
    second = post.take()
    assert post.begin(second)["outcome"]["payload"]["key"] != key
    post.succeed(second)
    post.supervise(again)
    assert post.ended(again) == ("succeeded", None)
    with pytest.raises(psycopg.Error, match="is not one that ended without success"):
        post.rows(retry, again)


@pytest.mark.parametrize(
    "arguments",
    [
        "null, 'x', 'y'",
        "'', 'x', 'y'",
        "'nobody', 'x', 'y'",
        "'a@b.c, d@e.f', 'x', 'y'",
        "'a@b.c;d@e.f', 'x', 'y'",
        "'a@b@c', 'x', 'y'",
        "E'a@b.c\\nBcc: d@e.f', 'x', 'y'",
        "'a@b.c', E'x\\r\\nBcc: d@e.f', 'y'",
        "'a@b.c', null, 'y'",
        "'a@b.c', 'x'",
        "'a@b.c', 'x', 'y', from_address => E'x\\n'",
        "'a@b.c', 'x', 'y', reply_to => E'x\\n'",
        "'a@b.c', 'x', 'y', headers => '[]'",
        "'a@b.c', 'x', 'y', headers => '{\"Bcc\": \"x\"}'",
        "'a@b.c', 'x', 'y', headers => '{\"X-A\": \"a\\nb\"}'",
        "'a@b.c', 'x', 'y', headers => '{\"X A\": \"a\"}'",
        "'a@b.c', 'x', 'y', headers => '{\"X-A\": 1}'",
        "'a@b.c', 'x', 'y', headers => '{\"From\": \"a@b.c\"}'",
        "'a@b.c', 'x', 'y', max_attempts => 0",
        "'a@b.c', 'x', 'y', max_attempts => 101",
        "'a@b.c', 'x', 'y', max_attempts => null",
        "'a@b.c', 'x', 'y', scheduled_at => 'infinity'",
        "'a@b.c', 'x', 'y', scheduled_at => null",
        "'a@b.c', 'x', 'y', queue_name => 'a b'",
        "'a@b.c', 'x', 'y', on_unknown => 'dup'",
        "'a@b.c', 'x', 'y', idempotency_key => ''",
        "'a@b.c', repeat('x', 2001), 'y'",
    ],
)
def test_a_bad_email_is_refused_in_one_line_and_leaves_nothing(mail: Post, arguments: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        mail.rows(f"select comms.send_email({arguments})", by=mail.app)
    assert str(refused.value.sqlstate).startswith("RQ")
    assert mail.rows("select * from comms.message") == []


@pytest.mark.parametrize(
    "arguments",
    [
        "null, 'x'",
        "'', 'x'",
        "'0170 123', 'x'",
        "'+', 'x'",
        "'+49170', ''",
        "'+49170', null",
        "'+49170', repeat('x', 1601)",
        "'+49170', 'x', E'a\\n'",
    ],
)
def test_a_bad_text_message_is_refused_in_one_line_and_leaves_nothing(texts: Post, arguments: str) -> None:
    with pytest.raises(psycopg.Error) as refused:
        texts.rows(f"select comms.send_sms({arguments})", by=texts.app)
    assert str(refused.value.sqlstate).startswith("RQ")
    assert texts.rows("select * from comms.message") == []


def test_anything_may_stand_in_a_body_or_a_subject(mail: Post) -> None:
    for text in ("Größe ✓ 漢字", "{{x}}", "<script>", "'; drop table x; --", "a\r\nb\n.\n"):
        send = mail.value(
            "select comms.send_email('ada@example.org', %s, %s, %s)", text.splitlines()[0], text, text, by=mail.app
        )
        sql = "select html = %s and text_body = html from comms.email_message where message_id = %s"
        assert mail.value(sql, text, mail.status(send)["message_id"])


def test_processes_run_where_the_settings_or_the_caller_say(post: Post) -> None:
    post.rows("update comms.setting set queue_name = 'mail'")
    first, second = post.send(), post.send(", queue_name => 'urgent'")
    assert [row["queue_name"] for row in post.chain()] == ["mail", "urgent"]
    for send, queue in ((first, "mail"), (second, "urgent")):
        post.run_supervisor(send)
        assert post.rows(
            "select 1 from queues.task_runs where task_type = %s and queue_name = %s", post.channel.name, queue
        )
