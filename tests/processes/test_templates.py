"""Templates: every parameter is needed and nothing in a value is interpreted."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.types.json import Jsonb

from .conftest import Post

SEND = "select comms.send_email_from_template('ada@example.org', 'welcome', %s)"


@pytest.fixture(autouse=True)
def _template(mail: Post) -> None:
    mail.rows(
        "select comms.put_email_template('welcome', 'Welcome, {{name}}', '<p>{{name}} has {{ points }}</p>',"
        " '{{name}}: {{points}}', array['name', 'points'])"
    )


def _sent(mail: Post, **parameters: object) -> dict[str, str]:
    send = mail.value(SEND, Jsonb(parameters), by=mail.app)
    (row,) = mail.rows(
        "select subject, html, text_body from comms.email_message where message_id = %s",
        mail.status(send)["message_id"],
    )
    return row


def test_values_stand_where_their_names_stood(mail: Post) -> None:
    assert _sent(mail, name="Ada", points=7) == {
        "subject": "Welcome, Ada", "html": "<p>Ada has 7</p>", "text_body": "Ada: 7",
    }  # fmt: skip


@pytest.mark.parametrize(
    "value", [r"\1 \0 \& $1", "{{points}}", "{{ name }}", "%s {0} ${name}", "O'Neill; drop", "ünï ✓"]
)
def test_a_value_is_only_text(mail: Post, value: str) -> None:
    sent = _sent(mail, name=value, points=1)
    assert sent["text_body"] == f"{value}: 1"
    assert sent["subject"] == f"Welcome, {value}"


def test_html_is_escaped_in_html_alone(mail: Post) -> None:
    sent = _sent(mail, name="""<b a="1" b='2'>&""", points=1)
    assert sent["html"] == "<p>&lt;b a=&quot;1&quot; b=&#39;2&#39;&gt;&amp; has 1</p>"
    assert sent["text_body"] == """<b a="1" b='2'>&: 1"""


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"name": "Ada"}, "the value of 'points' is missing"),
        ({"name": "Ada", "points": None}, "the value of 'points' is missing"),
        ({"name": "Ada", "points": 1, "more": 2}, "it has no parameter 'more'"),
        ({"name": "Ada", "points": [1]}, "must be a text, a number, true or false"),
        ([], "are an object"),
        ({"name": "two\nlines", "points": 1}, "subject must be one line"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_parameters_are_refused_and_nothing_is_sent(mail: Post, parameters: object, message: str) -> None:
    with pytest.raises(psycopg.Error, match=message):
        mail.rows(SEND, Jsonb(parameters), by=mail.app)
    assert mail.rows("select * from comms.message") == []


def test_a_template_that_does_not_exist_is_named(mail: Post) -> None:
    with pytest.raises(psycopg.Error, match="no template 'farewell'"):
        mail.rows("select comms.send_email_from_template('ada@example.org', 'farewell')", by=mail.app)


@pytest.mark.parametrize(
    ("subject", "text", "declared", "message"),
    [
        ("x", "{{a}} {{b}}", ["a"], r"declares \(a\) and uses \(a, b\)"),
        ("x", "{{a}}", ["a", "b"], "declares"),
        ("x", "{{A}}", None, "that is no parameter"),
        ("x", "{{a", None, "that is no parameter"),
    ],
)
def test_a_template_that_contradicts_itself_is_refused(
    mail: Post, subject: str, text: str, declared: list[str] | None, message: str
) -> None:
    with pytest.raises(psycopg.Error, match=message):
        mail.rows("select comms.put_email_template('t', %s, null, %s, %s)", subject, text, declared)


def test_what_was_sent_does_not_change_with_its_template(mail: Post) -> None:
    send = mail.value(SEND, Jsonb({"name": "Ada", "points": 1}), by=mail.app)
    mail.rows("select comms.put_email_template('welcome', 'x', null, 'other')")
    sql = "select text_body from comms.email_message where message_id = %s"
    assert mail.value(sql, mail.status(send)["message_id"]) == "Ada: 1"


def test_a_text_message_has_templates_too(mail: Post) -> None:
    mail.rows("select comms.put_sms_template('code', 'Your code: {{code}}')")
    send = mail.value(
        """select comms.send_sms_from_template('+4917012345678', 'code', '{"code": "0042"}')""", by=mail.app
    )
    assert (
        mail.value(
            "select body from comms.sms_message join comms.send_sms_task using (message_id)"
            " where send_sms_task_id = %s",
            send,
        )
        == "Your code: 0042"
    )
