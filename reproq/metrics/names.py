"""Names as labels: every name is a time series for ever, so their number is bounded."""

from __future__ import annotations

MOST = 100
OTHER = "other"


class Names:
    """The first hundred keep their name, whoever comes later is one of the others."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: set[str] = set()

    def label(self, name: str) -> str:
        if name in self._known:
            return name
        if len(self._known) >= self._most:
            return OTHER
        self._known.add(name)
        return name
