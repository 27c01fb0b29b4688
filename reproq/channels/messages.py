"""Messages as they come from the database, judged before anything is sent. What passes here can't smuggle a header, a
second recipient or an SMTP command."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from reproq.channels.contract import SendFailed, invalid, unavailable

_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_ADDRESS = r'([^\s<>()\[\],;:\\"@]+)@([^\s<>()\[\],;:\\"@]+)'
_BARE = re.compile(_ADDRESS)
_NAMED = re.compile(rf'(?:"((?:[^"\\]|\\.)*)"|([^\s"<>@,;:][^"<>@,;:]*)|) *<{_ADDRESS}>')
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_HEADER_NAME = re.compile(r"[!-9;-~]{1,70}")
_OWN_HEADERS = re.compile(
    r"from|to|cc|bcc|subject|date|message-id|reply-to|return-path|received|mime-version|(?:content|resent)-.*", re.I
)
_LONGEST_WORD = 900  # a line of a message has at most 998 characters
_PHONE = re.compile(r"[a-z_]{1,20}:\S{1,200}|\+?[0-9]{3,15}")
_PHONE_SIGNS = re.compile(r"[ ().\xa0-]+")


@dataclass(frozen=True)
class Mailbox:
    name: str
    local: str
    domain: str  # in ASCII

    @property
    def address(self) -> str:
        return f"{self.local}@{self.domain}"

    def __str__(self) -> str:
        """As people and APIs write it."""
        if not self.name:
            return self.address
        plain = re.fullmatch(r"[\w .'-]+", self.name)
        return f"{self.name if plain else quoted(self.name)} <{self.address}>"


@dataclass(frozen=True)
class Email:
    to: Mailbox
    sender: Mailbox
    reply_to: Mailbox | None
    subject: str
    html: str | None
    text: str | None
    headers: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Sms:
    to: str
    sender: str
    body: str


def quoted(name: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'


def read_email(message: Mapping[str, Any], default_sender: str | None) -> Email:
    html, text = _body(message, "html"), _body(message, "text")
    if html is None and text is None:
        raise invalid("neither html nor text: the message has no body")
    reply_to = _field(message, "reply_to")
    return Email(
        to=_mailbox("to", _required(message, "to")),
        sender=_email_sender(message, default_sender),
        reply_to=_mailbox("reply_to", reply_to) if reply_to else None,
        subject=_short_words("subject", _field(message, "subject") or ""),
        html=html,
        text=text,
        headers=tuple(_headers(message.get("headers") or {})),
    )


def read_sms(message: Mapping[str, Any], default_sender: str | None) -> Sms:
    to = _PHONE_SIGNS.sub("", _required(message, "to"))
    if not _PHONE.fullmatch(to):
        raise invalid("to isn't one phone number; write +15551234567")
    body = _body(message, "body")
    if not body:
        raise invalid("body is missing")
    return Sms(to, _sender(message, default_sender, "REPROQ_SMS_FROM"), body)


def _email_sender(message: Mapping[str, Any], default: str | None) -> Mailbox:
    sender = _sender(message, default, "REPROQ_EMAIL_FROM")
    try:
        return _mailbox("from", sender)
    except SendFailed as wrong:
        if _field(message, "from"):
            raise
        raise unavailable(f"REPROQ_EMAIL_FROM: {wrong.message}") from None


def _sender(message: Mapping[str, Any], default: str | None, variable: str) -> str:
    sender = _field(message, "from") or default
    if not sender:  # the worker's settings lack it: that may be mended, and must not end the message
        raise unavailable(f"no sender: give the message a from, or set {variable}")
    return sender


def _required(message: Mapping[str, Any], name: str) -> str:
    value = _field(message, name)
    if not value:
        raise invalid(f"{name} is missing")
    return value


def _field(message: Mapping[str, Any], name: str) -> str | None:
    """A text of one line."""
    value = _body(message, name)
    if value is not None and _CONTROL.search(value):
        raise invalid(f"{name} has a line break or another control character")
    return value.strip() if value else None


def _body(message: Mapping[str, Any], name: str) -> str | None:
    value = message.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid(f"{name} isn't a text")
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise invalid(f"{name} has a character that no message can carry (NUL or half a surrogate pair)")
    return value


def _headers(given: object) -> list[tuple[str, str]]:
    if not isinstance(given, Mapping):
        raise invalid("headers isn't an object of names and texts")
    seen: set[str] = set()
    for name in given:
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            raise invalid("headers has a name that isn't one: visible ASCII characters without colon")
        if _OWN_HEADERS.fullmatch(name) or name.lower() in seen:
            raise invalid(f"header {name} is set by the message's own fields, or twice")
        seen.add(name.lower())
    return [(name, _short_words(name, _field(given, name) or "")) for name in given]


def _short_words(name: str, value: str) -> str:
    if any(len(word) > _LONGEST_WORD for word in value.split()):
        raise invalid(f"{name} has a word of more than {_LONGEST_WORD} characters")
    return value


def _mailbox(name: str, value: str) -> Mailbox:
    if len(value) <= 1000:
        if bare := _BARE.fullmatch(value):
            return _checked(name, "", *bare.groups())
        if named := _NAMED.fullmatch(value):
            in_quotes, plain, local, domain = named.groups()
            shown = re.sub(r"\\(.)", r"\1", in_quotes) if in_quotes is not None else plain or ""
            return _checked(name, shown.strip(), local, domain)
    raise invalid(f"{name} isn't one email address; write ann@example.org or Ann <ann@example.org>")


def _checked(name: str, shown: str, local: str, domain: str) -> Mailbox:
    try:
        return Mailbox(shown, unicodedata.normalize("NFC", local), ascii_domain(domain))
    except ValueError:
        raise invalid(f"{name} has no domain that can exist after the @") from None


def ascii_domain(domain: str) -> str:
    """The name as DNS knows it. Not by Python's own codec: that follows IDNA 2003, where straße.de means strasse.de,
    which belongs to somebody else."""
    labels = unicodedata.normalize("NFKC", domain).replace("\u3002", ".").split(".")
    found = [label if label.isascii() else _punycode(label.lower()) for label in labels]
    if not all(_LABEL.fullmatch(label) for label in found) or len(".".join(found)) > 253:
        raise ValueError("not a domain")
    return ".".join(found)


def _punycode(label: str) -> str:
    label = unicodedata.normalize("NFC", label)
    signs = (char for char in label if not (char.isascii() and (char.isalnum() or char == "-")))
    if any(unicodedata.category(char)[0] not in "LMNS" or char.isascii() for char in signs):
        raise ValueError("not a label of a domain")
    return "xn--" + label.encode("punycode").decode("ascii")


def plain_key(key: str) -> str:
    """The key in characters that a file name, a header and a Message-ID can carry; different keys stay different."""
    word = quote(key, safe="")
    return word if 0 < len(word) <= 128 else "sha256-" + hashlib.sha256(key.encode()).hexdigest()
