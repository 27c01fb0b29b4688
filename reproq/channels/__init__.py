"""Email and SMS, by whom the settings say. For the system child: one message at a time, one open connection each.

Only the standard library, and of it only what the chosen providers need: the child's start is on the user's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reproq.channels.contract import AnswerLost, Provider, SendFailed

__all__ = ["AnswerLost", "Provider", "SendFailed", "providers"]


def providers(given: Mapping[str, Any]) -> dict[str, Provider]:
    """The configured channels, of "email" and "sms". `given` is what ProviderSettings.plain() gives."""
    found = {"email": _email(given), "sms": _sms(given)}
    return {channel: provider for channel, provider in found.items() if provider is not None}


def _email(given: Mapping[str, Any]) -> Provider | None:
    chosen, sender = given.get("email_provider"), given.get("email_from")
    if chosen is None:
        return None
    if chosen == "smtp":
        from reproq.channels.smtp import Smtp

        return Smtp(given["smtp"], sender)
    if chosen == "resend":
        from reproq.channels.resend import Resend

        return Resend(given["resend_api_key"], given["resend_api_url"], sender)
    if chosen == "file":
        from reproq.channels.files import EmailFolder

        return EmailFolder(given["outbox_dir"], sender)
    if chosen == "console":
        from reproq.channels.console import EmailConsole

        return EmailConsole(sender)
    raise ValueError(f"no email provider {chosen!r}")


def _sms(given: Mapping[str, Any]) -> Provider | None:
    chosen, sender = given.get("sms_provider"), given.get("sms_from")
    if chosen is None:
        return None
    if chosen == "twilio":
        from reproq.channels.twilio import Twilio

        return Twilio(given["twilio_account_sid"], given["twilio_auth_token"], given["twilio_api_url"], sender)
    if chosen == "file":
        from reproq.channels.files import SmsFolder

        return SmsFolder(given["outbox_dir"], sender)
    if chosen == "console":
        from reproq.channels.console import SmsConsole

        return SmsConsole(sender)
    raise ValueError(f"no sms provider {chosen!r}")
