"""SMS is email with another word: what is said twice must say the same."""

from __future__ import annotations

import pytest

from reproq.db.migration.files import default_folder

FUNCTIONS = default_folder() / "functions" / "comms"
# What a message consists of, and how it is looked up, is each channel's own.
OWN = {
    "send_email",
    "send_email_from_template",
    "put_email_template",
    "create_email_message",
    "copy_email_message",
    "get_email_payload",
}
SHARED = sorted(path for path in FUNCTIONS.glob("*email*.sql") if path.stem not in OWN)


@pytest.mark.parametrize("path", SHARED, ids=lambda path: path.stem)
def test_both_channels_say_the_same(path: object) -> None:
    email = FUNCTIONS / getattr(path, "name")  # noqa: B009
    sms = FUNCTIONS / email.name.replace("email", "sms")
    assert sms.read_text("utf-8") == email.read_text("utf-8").replace("email", "sms")


def test_both_channels_have_the_same_tables() -> None:
    text = (default_folder() / "0002_processes.sql").read_text("utf-8")
    _, email, sms = text.replace("-- Email: the root, its facts.", "-- SMS: the same.").split("-- SMS: the same.")
    assert sms.strip() == email.strip().replace("email", "sms")
