"""Who waits for what: a Board for each kind, an Entry for each task or process, a Follower for each who waits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from reproq.queue.waiting import Sight


@dataclass(frozen=True, slots=True)
class Subject:
    """What is waited for: a task (no function), or a process and the function that tells how one stands."""

    kind: str
    id: int
    function: str | None = None


@dataclass(slots=True, eq=False)
class Follower:
    """One who waits. `woken` is set by a change, by the end of the gateway, or by whoever else wants its attention."""

    entry: Entry
    seen: str | None = None
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def news(self) -> Sight | None:
        """What changed since the last call; None: nothing did."""
        sight = self.entry.sight
        if sight is None or (sight.mark is not None and sight.mark == self.seen):
            return None
        self.seen = sight.mark
        return sight


@dataclass(slots=True, eq=False)
class Entry:
    sight: Sight | None = None  # as the last look found it
    followers: set[Follower] = field(default_factory=set)

    def found(self, sight: Sight) -> None:
        if self.sight is None or sight.mark is None or sight.mark != self.sight.mark:
            self.sight = sight
            self.wake()

    def wake(self) -> None:
        for follower in self.followers:
            follower.woken.set()


class Board:
    """The subjects of one kind."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.due = 0.0  # processes: when to look again
        self._ids: dict[int, str] = {}  # as a look at tasks sends them, forty times a second
        self._marks: dict[int, str] = {}
        self._literals: tuple[bytes, bytes] | None = None

    def add(self, number: int) -> Follower:
        entry = self.entries.get(number)
        if entry is None:
            entry = self.entries[number] = Entry()
            self._ids[number], self._marks[number] = str(number), "null"
            self._literals, self.due = None, 0.0
        follower = Follower(entry)
        entry.followers.add(follower)
        if entry.sight is not None:
            follower.woken.set()
        return follower

    def remove(self, number: int, follower: Follower) -> None:
        follower.entry.followers.discard(follower)
        if not follower.entry.followers and self.entries.get(number) is follower.entry:
            for table in (self.entries, self._ids, self._marks):
                del table[number]
            self._literals = None

    def asked(self) -> tuple[bytes, bytes]:
        """Ids and marks as array literals; neither needs quotes."""
        if self._literals is None:
            ids, known = (",".join(texts.values()) for texts in (self._ids, self._marks))
            self._literals = f"{{{ids}}}".encode(), f"{{{known}}}".encode()
        return self._literals

    def tell(self, found: list[Sight]) -> None:
        for sight in found:
            entry = self.entries.get(sight.id)
            if entry is not None:  # else the last one who waited for it has left
                self._marks[sight.id] = sight.mark or "null"
                self._literals = None
                entry.found(sight)
