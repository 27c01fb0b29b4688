"""Messages printed to standard output, for development."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from reproq.channels.contract import Provider, one_line, unavailable
from reproq.channels.messages import plain_key, read_email, read_sms

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a message may not move the cursor


class _Console(Provider):
    name = "console"
    resolves_by = "resend"

    def __init__(self, sender: str | None) -> None:
        self.sender = sender

    def close(self) -> None:
        pass

    def _print(self, kind: str, key: str, fields: list[tuple[str, object]], bodies: list[str]) -> dict[str, Any]:
        head = "\n".join(f"{name}: {value}" for name, value in fields if value)
        text = "\n\n".join([f"--- {kind} {plain_key(key)}\n{head}", *bodies, "---\n"])
        try:
            sys.stdout.write(_CONTROL.sub("?", text.replace("\r\n", "\n")))
            sys.stdout.flush()
        except (OSError, ValueError) as problem:
            raise unavailable(one_line(f"can't print: {problem}")) from None
        return {"provider": self.name, "provider_message_id": f"console-{plain_key(key)}"}


class EmailConsole(_Console):
    def send(self, message: Mapping[str, Any], key: str, timeout_s: float) -> dict[str, Any]:
        email = read_email(message, self.sender)
        fields = [("From", email.sender), ("To", email.to), ("Reply-To", email.reply_to), ("Subject", email.subject)]
        return self._print("email", key, [*fields, *email.headers], [body for body in (email.text, email.html) if body])


class SmsConsole(_Console):
    def send(self, message: Mapping[str, Any], key: str, timeout_s: float) -> dict[str, Any]:
        sms = read_sms(message, self.sender)
        return self._print("sms", key, [("From", sms.sender), ("To", sms.to)], [sms.body])
