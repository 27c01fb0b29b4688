"""Who carries email and SMS, and with which keys. Read at a worker's start only: other commands need no keys."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reproq.config.address import passwords
from reproq.config.endpoints import smtp

EMAIL_PROVIDERS = ("smtp", "resend", "console", "file")
SMS_PROVIDERS = ("twilio", "console", "file")
_NEEDED = {
    "smtp": {"smtp_url": "REPROQ_SMTP_URL"},
    "resend": {"resend_api_key": "RESEND_API_KEY"},
    "twilio": {"twilio_account_sid": "TWILIO_ACCOUNT_SID", "twilio_auth_token": "TWILIO_AUTH_TOKEN"},
}
_ALSO_USED = {"resend": ("resend_api_url",), "twilio": ("twilio_api_url",), "file": ("outbox_dir",)}
CHOICES = {"email_provider": "email_from", "sms_provider": "sms_from"}


def used(choice: str, provider: object) -> tuple[str, ...]:
    """The settings that count once this provider is chosen. The others aren't even read: TWILIO_AUTH_TOKEN_FILE may be
    there for the app alone."""
    return (CHOICES[choice], *_NEEDED.get(str(provider), ()), *_ALSO_USED.get(str(provider), ()))


@dataclass(frozen=True)
class ProviderSettings:
    email_provider: str | None = None  # none = this worker serves no email
    sms_provider: str | None = None
    email_from: str | None = None
    sms_from: str | None = None
    smtp_url: str | None = field(default=None, repr=False)
    resend_api_key: str | None = field(default=None, repr=False)
    resend_api_url: str = "https://api.resend.com"
    twilio_account_sid: str | None = None
    twilio_auth_token: str | None = field(default=None, repr=False)
    twilio_api_url: str = "https://api.twilio.com"
    outbox_dir: Path = Path("outbox")

    def plain(self) -> dict[str, Any]:
        """What channels.providers() takes, and JSON can carry. It holds the keys: only for the system child's pipe."""
        values = {name: value for name, value in asdict(self).items() if value is not None}
        server = {"smtp": asdict(smtp(self.smtp_url))} if self.smtp_url else {}
        values.pop("smtp_url", None)
        return values | server | {"outbox_dir": str(self.outbox_dir.absolute())}

    def secrets(self) -> set[str]:
        keys = {key for key in (self.smtp_url, self.resend_api_key, self.twilio_auth_token) if key}
        return keys | passwords(self.smtp_url or "")

    def has_room(self) -> bool:
        """Whether the provider `file`, if it is chosen, can have its folder."""
        if "file" not in (self.email_provider, self.sms_provider):
            return True
        folder = self.outbox_dir.absolute()
        nearest = next(path for path in (folder, *folder.parents) if path.exists())
        return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK) and not str(nearest).startswith("/proc")

    def missing(self) -> list[tuple[str, str]]:
        """Variables that a chosen provider needs: its name and theirs."""
        chosen = [name for name in (self.email_provider, self.sms_provider) if name in _NEEDED]
        return [
            (name, variable) for name in chosen for key, variable in _NEEDED[name].items() if not getattr(self, key)
        ]
