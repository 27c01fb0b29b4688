"""Who may sign for a sink: secrets are the dispatcher's, never the database's."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from reproq import log
from reproq.config.dispatch import secret_variable, sink_secrets
from reproq.config.settings import SettingsError
from reproq.log import Event
from reproq.outbox import signing
from reproq.queue.outbox import Sink


class Unusable(Exception):
    """Nothing is sent to the sink until a person has acted; what waits for it waits."""


def keys_of(sink: Sink, environ: Mapping[str, str]) -> tuple[bytes, ...]:
    """The newest first, as written. () for a sink whose messages aren't signed."""
    if not sink.signed:
        return ()
    variable = secret_variable(sink.name)
    try:
        words = sink_secrets(sink.name, environ)
        log.hide(words)
        keys = tuple(signing.key_of(word) for word in words)
    except (SettingsError, ValueError) as problem:
        raise Unusable(f"{variable}: {problem}") from None
    if not keys:
        raise Unusable(f"it has no secret: set {variable} or {variable}_FILE, or make the sink an unsigned one")
    return keys


class Keyring:
    """Says once what is missing, and once that it has come."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.missing: dict[str, str] = {}
        """Sinks that nothing can be sent to, and why."""

    def keys(self, sink: Sink) -> tuple[bytes, ...] | None:
        try:
            keys = keys_of(sink, self._environ)
        except Unusable as problem:
            if self.missing.get(sink.name) != str(problem):
                self.missing[sink.name] = str(problem)
                log.say(
                    Event.SINK_UNUSABLE, f"nothing is sent to {sink.name}: {problem}", logging.ERROR, sink=sink.name
                )
            return None
        if self.missing.pop(sink.name, None) is not None:
            log.say(Event.SINK_USABLE, f"{sink.name} has its secret now", sink=sink.name)
        return keys
