"""An email as the octets that SMTP carries.

Header lines are written here, not by EmailMessage: that wraps long words, a List-Unsubscribe link say, into encoded
words, which readers don't follow as links any more.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

from reproq.channels.messages import Email, Mailbox, plain_key, quoted

_WIDTH = 76
_SEVEN_BIT = SMTP.clone(cte_type="7bit")  # passes every server, whatever it offers
_WORDS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~ -]*")


def message_id(email: Email, key: str) -> str:
    return f"<{plain_key(key)}@{email.sender.domain}>"


def rendered(email: Email, key: str) -> bytes:
    """Lines end with CRLF. Only an address with a non-ASCII local part brings octets above 127, into the header."""
    lines = [
        f"Date: {format_datetime(datetime.now(UTC))}",
        f"Message-ID: {message_id(email, key)}",
        _mailbox_line("From", email.sender),
        _mailbox_line("To", email.to),
        *([_mailbox_line("Reply-To", email.reply_to)] if email.reply_to else []),
        _line("Subject", email.subject),
        *(_line(name, value) for name, value in email.headers),
    ]
    return "\r\n".join(lines).encode() + b"\r\n" + _parts(email)


def _parts(email: Email) -> bytes:
    message = EmailMessage(policy=_SEVEN_BIT)
    if email.text is not None:
        message.set_content(email.text)
        if email.html is not None:
            message.add_alternative(email.html, subtype="html")
    else:
        message.set_content(email.html or "", subtype="html")
    return message.as_bytes()


def _line(name: str, value: str) -> str:
    if not _is_plain(value):
        return f"{name}: {_encoded(name, value)}"
    lines = [f"{name}:"]
    for word in re.split(r"[ \t](?=[^ \t])", value):
        fits = lines == [f"{name}:"] or len(lines[-1]) + len(word) < _WIDTH
        lines[-1:] = [f"{lines[-1]} {word}"] if fits else [lines[-1], f" {word}"]
    return "\r\n".join(lines)


def _is_plain(value: str) -> bool:
    """What looks like an encoded word would be read as one."""
    return value.isascii() and "=?" not in value


def _encoded(name: str, value: str) -> str:
    return Header(value, "utf-8", maxlinelen=_WIDTH, header_name=name).encode(linesep="\r\n")


def _mailbox_line(name: str, mailbox: Mailbox) -> str:
    if not mailbox.name:
        return f"{name}: {mailbox.address}"
    if _is_plain(mailbox.name):
        phrase = mailbox.name if _WORDS.fullmatch(mailbox.name) else quoted(mailbox.name)
        return _line(name, f"{phrase} <{mailbox.address}>")
    return f"{name}: {_encoded(name, mailbox.name)}\r\n <{mailbox.address}>"
