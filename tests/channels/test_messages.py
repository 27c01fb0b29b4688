"""What a message may look like, and what its octets are."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproq.channels import SendFailed
from reproq.channels.messages import ascii_domain, plain_key, read_email, read_sms
from reproq.channels.mime import rendered

EMAIL = {"to": "ann@example.org", "from": "shop@example.org", "subject": "Hello", "text": "Hi."}
SMS = {"to": "+15551234567", "from": "Shop", "body": "Hi."}


def refusal(change: dict[str, Any], base: dict[str, str] = EMAIL) -> str:
    read = read_email if base is EMAIL else read_sms
    with pytest.raises(SendFailed) as caught:
        read(base | change, None)
    assert (caught.value.kind, caught.value.permanent) == ("validation", True)
    assert "\n" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize(
    "breaking", ["\r\nBcc: eve@example.org", "\n", "\r", "\0", "\x0b", "\x85", "\u2028", "\x1b[2J"]
)
@pytest.mark.parametrize("field", ["to", "from", "reply_to", "subject", "headers"])
def test_no_field_can_smuggle_another_line(field: str, breaking: str) -> None:
    value = f"a@example.org{breaking}"
    assert refusal({field: {"X-Note": value} if field == "headers" else value})


@pytest.mark.parametrize(
    "to",
    [
        None,
        "",
        " ",
        7,
        ["ann@example.org"],
        "ann",
        "ann@",
        "@example.org",
        "ann@example.org, eve@example.org",
        "ann@example.org;eve@example.org",
        "Ann <ann@example.org>, <eve@example.org>",
        "ann@example.org eve@example.org",
        "Ann, Eve <ann@example.org>",
        "<ann@example.org",
        "ann@example..org",
        "ann@exa_mple-.org",
        "ann@ex\u200dample.org",
        "a" * 2000 + "@example.org",
        "ann@" + "a." * 200 + "org",
        "\ud800@example.org",
    ],
)
def test_a_recipient_is_exactly_one_address(to: object) -> None:
    assert refusal({"to": to}).startswith("to ")


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"text": None}, "neither html nor text"),
        ({"text": 7}, "text isn't a text"),
        ({"text": "a\0b"}, "NUL"),
        ({"subject": ["x"]}, "subject isn't a text"),
        ({"subject": "x" * 1000}, "more than 900"),
        ({"headers": ["X: y"]}, "headers isn't an object"),
        ({"headers": {"X Y": "z"}}, "a name that isn't one"),
        ({"headers": {"X:Y": "z"}}, "a name that isn't one"),
        ({"headers": {"X\r\nBcc": "z"}}, "a name that isn't one"),
        ({"headers": {"X-Y": 7}}, "X-Y isn't a text"),
        ({"headers": {"bcc": "eve@example.org"}}, "set by the message's own fields"),
        ({"headers": {"Content-Type": "text/html"}}, "set by the message's own fields"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "twice"),
    ],
)
def test_a_message_of_another_shape_is_refused_with_what_is_wrong(change: dict[str, Any], hint: str) -> None:
    assert hint in refusal(change)


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"to": None}, "to is missing"),
        ({"to": "+1555,+1556"}, "to isn't one phone number"),
        ({"to": "ann"}, "to isn't one phone number"),
        ({"to": "+1555\r\n"}, "control character"),
        ({"body": ""}, "body is missing"),
        ({"body": 7}, "body isn't a text"),
        ({"from": "a\nb"}, "control character"),
    ],
)
def test_an_sms_of_another_shape_is_refused(change: dict[str, Any], hint: str) -> None:
    assert hint in refusal(change, SMS)


@pytest.mark.parametrize(
    ("written", "means"),
    [("+1 (555) 123-4567", "+15551234567"), ("12345", "12345"), ("whatsapp:+15551234567", "whatsapp:+15551234567")],
)
def test_phone_numbers_as_people_write_them(written: str, means: str) -> None:
    assert read_sms(SMS | {"to": written}, None).to == means


def test_the_senders_name_that_is_missing_in_the_settings_does_not_end_a_message() -> None:
    for read, message, name in ((read_email, EMAIL, "REPROQ_EMAIL_FROM"), (read_sms, SMS, "REPROQ_SMS_FROM")):
        with pytest.raises(SendFailed, match=f"set {name}") as caught:
            read({field: value for field, value in message.items() if field != "from"}, None)
        assert (caught.value.kind, caught.value.permanent) == ("provider_unavailable", False)


def test_a_wrong_sender_in_the_settings_does_not_end_a_message_and_a_wrong_one_of_its_own_does() -> None:
    message = {field: value for field, value in EMAIL.items() if field != "from"}
    with pytest.raises(SendFailed, match="REPROQ_EMAIL_FROM: from isn't one email address") as caught:
        read_email(message, "Shop, Inc <shop@example.org>")
    assert (caught.value.kind, caught.value.permanent) == ("provider_unavailable", False)
    assert refusal({"from": "Shop, Inc <shop@example.org>"}).startswith("from isn't")


@pytest.mark.parametrize(
    ("domain", "means"),
    [
        ("Example.ORG", "Example.ORG"),
        ("straße.de", "xn--strae-oqa.de"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
    ],
)
def test_domains_are_written_as_dns_knows_them(domain: str, means: str) -> None:
    assert ascii_domain(domain) == means


def test_different_keys_stay_different_and_stay_inside_a_folder() -> None:
    keys = ["a", "a/b", "a%2Fb", "../a", "", "k" * 300, "k" * 301, "ü", ".", "a b"]
    plain = [plain_key(key) for key in keys]
    assert len(set(plain)) == len(keys)
    assert not any("/" in word or len(word) > 128 for word in plain)


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300)
LINE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=120)


@settings(deadline=None)
@given(LINE, LINE, TEXT, TEXT, LINE)
def test_every_text_survives_and_no_octet_upsets_a_server(
    name: str, subject: str, text: str, html: str, header: str
) -> None:
    message = EMAIL | {"subject": subject, "text": text, "html": html, "headers": {"X-Note": header}}
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    octets = rendered(read_email(message | {"to": f'"{quoted}" <ann@example.org>'}, None), "k")
    assert octets.isascii()
    assert octets.endswith(b"\r\n")
    assert b"\r" not in octets.replace(b"\r\n", b"")
    assert b"\n" not in octets.replace(b"\r\n", b"")
    assert max(map(len, octets.split(b"\r\n"))) <= 998
    got = message_from_bytes(octets, policy=policy.default)
    assert isinstance(got, EmailMessage)
    assert len(got.keys()) == len(set(got.keys())) == 8
    parts = [part.get_content() for part in got.iter_parts() if isinstance(part, EmailMessage)]
    expected = [_lines(text), _lines(html)]
    assert [_lines(part) for part in parts] == expected
    assert _words(got["Subject"]) == _words(subject)
    assert _words(got["X-Note"]) == _words(header)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def _words(text: str) -> str:
    """White space at a fold may be any; encoded words keep theirs."""
    return "".join(text.split())
