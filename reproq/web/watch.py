"""The looks that serve everybody who waits.

Tasks: looks follow each other every 25 ms while anybody waits, and there is none while nobody does. All of them go over
one connection, whose loss is nothing to who waits: it is opened again, and the waiting goes on until its time is over.

Processes: each kind has a function of its own that tells how one stands, and that may be slow or broken. So they are
looked at beside, over a connection of the store's, and the next look comes after ten times what the last one took.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from reproq import log
from reproq.db.connect import AsyncConnection, connect_async
from reproq.db.errors import first_line
from reproq.log import Event
from reproq.queue import run_async
from reproq.queue.waiting import Look, process_status, watch_tasks
from reproq.tickets import TASK
from reproq.web.board import Board, Follower, Subject
from reproq.web.counts import Counts
from reproq.web.problems import Problem
from reproq.web.processes import sight_of
from reproq.web.store import Store

EVERY_S = 0.025
LOOK_LIMIT_S = 5.0
SHARED_BYTES = 65536  # a longer result is fetched by whoever waits for it, not held for all
LONGEST_PAUSE_S = 3.0
REFUSED_PAUSE_S = 1.0


class Watch:
    def __init__(self, dsn: str, store: Store, counts: Counts) -> None:
        self._dsn = dsn
        self._store = store
        self._counts = counts
        self._tasks = Board()
        self._processes: dict[str, Board] = {}  # by function
        self._any_task, self._any_process = asyncio.Event(), asyncio.Event()
        self._connection: AsyncConnection | None = None
        self._since: bytes | None = None  # what was written before that is known
        self._loops: list[asyncio.Task[None]] = []
        self._away_since: float | None = None
        self.ending = False

    def start(self) -> None:
        self._loops = [asyncio.create_task(self._watch_tasks()), asyncio.create_task(self._watch_processes())]

    async def stop(self) -> None:
        for loop in self._loops:
            loop.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        await self._hang_up()

    @property
    def alive(self) -> bool:
        return bool(self._loops) and not any(loop.done() for loop in self._loops)

    def end(self) -> None:
        """The gateway stops: whoever waits is told to ask again."""
        self.ending = True
        for board in (self._tasks, *self._processes.values()):
            for entry in board.entries.values():
                entry.wake()

    @contextmanager
    def following(self, subject: Subject) -> Iterator[Follower]:
        is_task = subject.kind == TASK
        board = self._tasks if is_task else self._processes.setdefault(subject.function or "", Board())
        follower = board.add(subject.id)
        self._counts.waiting += 1
        (self._any_task if is_task else self._any_process).set()
        try:
            yield follower
        finally:
            self._counts.waiting -= 1
            board.remove(subject.id, follower)

    async def _watch_tasks(self) -> None:
        pause = 0.1
        while True:
            if not self._tasks.entries:
                self._any_task.clear()
                await self._any_task.wait()
            began = time.monotonic()
            try:
                await self._look_at_tasks()
                self._is_back()
                pause = 0.1
            except (psycopg.Error, OSError, TimeoutError) as problem:
                await self._lost(problem)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, LONGEST_PAUSE_S)
                continue
            took = time.monotonic() - began
            self._counts.looks += 1
            self._counts.look_seconds += took
            await asyncio.sleep(max(EVERY_S - took, took))

    async def _look_at_tasks(self) -> None:
        async with asyncio.timeout(LOOK_LIMIT_S):
            if self._connection is None or self._connection.closed:
                self._connection = await connect_async(self._dsn, name="reproq serve: waiting")
            ids, known = self._tasks.asked()
            look: Look = await run_async(self._connection, watch_tasks(ids, known, SHARED_BYTES, self._since))
        self._since = look.since
        self._tasks.tell(look.sights)

    async def _watch_processes(self) -> None:
        while True:
            self._processes = {function: board for function, board in self._processes.items() if board.entries}
            if not self._processes:
                self._any_process.clear()
                await self._any_process.wait()
            for function, board in list(self._processes.items()):
                if board.entries and time.monotonic() >= board.due:
                    await self._look_at_processes(function, board)
            await asyncio.sleep(EVERY_S)

    async def _look_at_processes(self, function: str, board: Board) -> None:
        began, pause = time.monotonic(), 0.0
        try:
            rows = await self._store.run(process_status(function, list(board.entries)))
            board.tell([sight_of(number, document) for number, document in rows])
        except (Problem, psycopg.Error) as refused:
            log.say(Event.DATABASE_ERROR, f"{function} can't be asked: {first_line(refused)}", logging.WARNING)
            pause = REFUSED_PAUSE_S
        now = time.monotonic()
        board.due = now + max(pause, 10 * (now - began))

    async def _lost(self, problem: BaseException) -> None:
        await self._hang_up()
        if self._away_since is None:
            self._away_since = time.monotonic()
            text = f"waiting goes on, the database is away: {first_line(problem)}"
            log.say(Event.DATABASE_LOST, text, logging.WARNING)

    def _is_back(self) -> None:
        if self._away_since is not None:
            away = time.monotonic() - self._away_since
            self._away_since = None
            log.say(Event.DATABASE_BACK, f"the database is back after {away:.1f} s", waited_s=round(away, 1))

    async def _hang_up(self) -> None:
        self._since = None
        if self._connection is not None:
            await self._connection.close()
            self._connection = None
