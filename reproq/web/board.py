"""Who waits for what: a Board for each kind, an Entry for each task or process, a Follower for each who waits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from reproq.queue.waiting import Sight, marks


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
        self._asked: tuple[bytes, bytes] | None = None

    def add(self, number: int) -> Follower:
        entry = self.entries.get(number)
        if entry is None:
            entry = self.entries[number] = Entry()
            self._asked, self.due = None, 0.0
        follower = Follower(entry)
        entry.followers.add(follower)
        if entry.sight is not None:
            follower.woken.set()
        return follower

    def remove(self, number: int, follower: Follower) -> None:
        follower.entry.followers.discard(follower)
        if not follower.entry.followers and self.entries.get(number) is follower.entry:
            del self.entries[number]
            self._asked = None

    def asked(self) -> tuple[bytes, bytes]:
        """Ids and marks as a look at tasks sends them: made anew only when they have changed."""
        if self._asked is None:
            ids = ("{" + ",".join(map(str, self.entries)) + "}").encode()
            known = [None if entry.sight is None else entry.sight.mark for entry in self.entries.values()]
            self._asked = ids, marks(known)
        return self._asked

    def tell(self, found: list[Sight]) -> None:
        for sight in found:
            entry = self.entries.get(sight.id)
            if entry is not None:  # else the last one who waited for it has left
                entry.found(sight)
        if found:
            self._asked = None
