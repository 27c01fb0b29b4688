"""Providers for development, and the choice between all of them."""

from __future__ import annotations

import json
import subprocess
import sys
from email import message_from_bytes, policy
from pathlib import Path

import pytest

from reproq.channels import SendFailed, providers

EMAIL = {"to": "ann@example.org", "subject": "Grüße", "text": "Hi.", "html": "<p>Hi.</p>"}
SMS = {"to": "+15551234567", "body": "Hi ✓"}
SENDERS = {"email_from": "Shop <shop@example.org>", "sms_from": "Shop"}


def test_only_the_chosen_channels_are_there() -> None:
    assert providers({}) == {}
    assert list(providers({"sms_provider": "console"})) == ["sms"]
    with pytest.raises(ValueError, match="no email provider 'pigeon'"):
        providers({"email_provider": "pigeon"})


def test_each_message_is_a_file_named_by_its_key_and_written_once(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "outbox"
    both = providers({"email_provider": "file", "sms_provider": "file", "outbox_dir": str(folder), **SENDERS})
    assert both["email"].send(EMAIL, "send-1", 5) == {"provider": "file", "provider_message_id": "send-1.eml"}
    first = (folder / "send-1.eml").read_bytes()
    both["email"].send(EMAIL, "send-1", 5)
    both["sms"].send(SMS, "../sms/1", 5)
    assert sorted(path.name for path in folder.iterdir()) == ["..%2Fsms%2F1.sms.json", "send-1.eml"]
    assert (folder / "send-1.eml").read_bytes() == first
    mail = message_from_bytes(first, policy=policy.default)
    assert (mail["To"], mail["Subject"], mail["Message-ID"]) == ("ann@example.org", "Grüße", "<send-1@example.org>")
    sms = json.loads((folder / "..%2Fsms%2F1.sms.json").read_text())
    assert sms == {"to": "+15551234567", "from": "Shop", "body": "Hi ✓"}
    for provider in both.values():
        provider.close()


def test_a_folder_that_cannot_be_written_does_not_end_messages(tmp_path: Path) -> None:
    (tmp_path / "outbox").touch()
    provider = providers({"email_provider": "file", "outbox_dir": str(tmp_path / "outbox"), **SENDERS})["email"]
    with pytest.raises(SendFailed, match="can't write") as caught:
        provider.send(EMAIL, "k", 5)
    assert (caught.value.kind, caught.value.permanent) == ("provider_unavailable", False)


def test_the_console_shows_messages_and_no_message_moves_its_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    both = providers({"email_provider": "console", "sms_provider": "console", **SENDERS})
    answer = both["email"].send(EMAIL | {"text": "one\r\ntwo\x1b[2J"}, "send-1", 5)
    assert answer == {"provider": "console", "provider_message_id": "console-send-1"}
    both["sms"].send(SMS, "sms-1", 5)
    assert capsys.readouterr().out == (
        "--- email send-1\nFrom: Shop <shop@example.org>\nTo: ann@example.org\nSubject: Grüße\n\none\ntwo?[2J\n\n"
        "<p>Hi.</p>\n\n---\n--- sms sms-1\nFrom: Shop\nTo: +15551234567\n\nHi ✓\n\n---\n"
    )


@pytest.mark.parametrize("chosen", [{"email_provider": "console"}, {"sms_provider": "file", "outbox_dir": "/x"}])
def test_only_lookup_answers_questions(chosen: dict[str, str]) -> None:
    (provider,) = providers(chosen).values()
    assert provider.resolves_by == "resend"
    with pytest.raises(TypeError, match="can't be asked"):
        provider.find({}, 0, 1)


def test_the_room_loads_no_foreign_library_and_only_the_chosen_provider() -> None:
    code = (
        "import sys; from reproq.channels import providers;"
        "providers({'email_provider': 'resend', 'resend_api_key': 'k', 'resend_api_url': 'https://h'});"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
                          capture_output=True, text=True, check=True)  # fmt: skip
    loaded = set(done.stdout.split())
    slow = {"psycopg", "pydantic", "orjson", "click", "rich", "asyncio", "requests", "smtplib", "urllib.request"}
    assert loaded & (slow | {"reproq.config", "reproq.log", "reproq.channels.twilio"}) == set()


ROOT = Path(__file__).parents[2]
