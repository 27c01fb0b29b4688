"""Standard Webhooks: who has the secret can tell that a message is ours, whole, and fresh."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64


def key_of(secret: str) -> bytes:
    """The key in `whsec_…`. The error doesn't repeat it."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else b""
    except (binascii.Error, ValueError):
        key = b""
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise ValueError(
            "not a signing secret: whsec_ and 24 to 64 octets in base64 are needed; "
            "`reproq dispatch sinks secret` makes one"
        )
    return key


def headers(message_id: str, timestamp: int, body: bytes, keys: tuple[bytes, ...]) -> dict[str, str]:
    """One signature for each key, so that a receiver may know the old or the new one while they are changed."""
    content = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    signatures = (base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in keys)
    named = {"webhook-id": message_id, "webhook-timestamp": str(timestamp)}
    return named | ({"webhook-signature": " ".join(f"v1,{one}" for one in signatures)} if keys else {})
