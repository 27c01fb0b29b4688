"""Which task pays for what its child says."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import example, given, settings
from hypothesis import strategies as st

from reproq.executor.order import run_line_id
from reproq.models.envelope import Outcome
from reproq.models.execution import Execution
from reproq.runner.crew import Station
from reproq.runner.floor import Floor
from reproq.runner.handout import Handout
from tests.executor.played import Played, execution
from tests.executor.played import answer as answer_of

_TASKS = range(1, 31)
_GUILTY = range(5, 31, 5)
_MAX_LINE = 2000


def _for_the_next(answer: bytes) -> bytes:
    said = json.loads(answer)
    return json.dumps(said | {"id": said["id"] + 1, "payload": "forged"}).encode() + b"\n"


_SAYS: dict[str, Callable[[bytes], bytes]] = {
    "garbage": lambda _answer: b"hello\n",
    "an empty line": lambda _answer: b"\n",
    "half a line": lambda _answer: b"hello",
    "no object": lambda _answer: b"[]\n",
    "too long a line": lambda _answer: b" " * (_MAX_LINE + 1) + b"\n",
    "half a line that is too long": lambda _answer: b" " * (_MAX_LINE + 1),
    "its answer": lambda answer: answer,
    "its answer and garbage": lambda answer: answer + b"hello\n",
    "its answer and half a line": lambda answer: answer + b"hello",
    "its answer twice and garbage": lambda answer: answer * 2 + b"hello\n",
    "an answer for the next task": lambda answer: answer + _for_the_next(answer),
}
_STEPS = st.lists(
    st.sampled_from(["hand", "begin", "begin", "speak", "answer", "answer", "hear", "take back"]),
    min_size=30,
    max_size=200,
)


class Scene:
    """A floor with one child that the test plays: guilty tasks say more than their answer."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[int, bool]] = []
        self.begun: list[int] = []
        self.running: int | None = None
        books = SimpleNamespace(
            record=self._record,
            confirm=lambda _station: None,
            leases=SimpleNamespace(may_begin=lambda _execution: True),
            finishes=SimpleNamespace(weight=0),
        )
        loop = SimpleNamespace(after=lambda *_a: None, at=lambda *_a: None)
        keeper = SimpleNamespace(up=False, after_death={}, kill=lambda _child, _signal: None)
        config = SimpleNamespace(max_memory=None, kill_grace_s=1.0)
        stations: list[Station] = []
        handout = Handout(cast(Any, books), stations, "worker/1/boot", 1 << 20)
        floor = Floor(*(cast(Any, part) for part in (config, loop, keeper, books, None, stations, handout)))
        self._played = Played(floor, floor.answers, _MAX_LINE)
        stations.append(Station(self._played.pool))
        self._played.boots()
        self._handout, self._station = handout, stations[0]
        self._station.ready.extend(map(execution, _TASKS))

    def _record(self, execution: Execution, outcome: Outcome) -> None:
        execution.over = True
        self.outcomes.append((execution.id, outcome["success"] and outcome["payload"] != "forged"))

    @property
    def waiting(self) -> list[int]:
        return [one.id for one in self._station.ready]

    def plays(self, steps: list[str], says: list[str]) -> None:
        try:
            for step in [*steps, "hear", "answer", "hear"]:
                self._step(step, says)
        finally:
            self.handed = [one.id for one in self._played.child.lines]
            self._played.ends()

    def _step(self, step: str, says: list[str]) -> None:
        played, running = self._played, self.running
        if step == "hand":
            self._handout.hand_out(self._station)
        elif step == "take back":
            self._handout.take_back(played.child)
        elif step == "hear":
            played.is_read()
        elif step == "begin" and running is None and run_line_id(played.child.back.head()):
            (self.running,) = played.begins(1)
            self.begun.append(self.running)
        elif step == "answer again":
            played.writes(answer_of(self.begun[-1]))
        elif running is not None and step in ("speak", "answer"):
            answer = answer_of(running)
            if running in _GUILTY:
                played.writes(_SAYS[says[running % len(says)]](answer))
            if step == "answer":
                played.writes(answer)
                self.running = None


@settings(max_examples=400, deadline=None)
@given(steps=_STEPS, says=st.lists(st.sampled_from(list(_SAYS)), min_size=1, max_size=6))
@example(steps=["hand", *["begin", "answer"] * 9], says=["garbage"])
@example(steps=["hand", *["begin", "answer"] * 9], says=["half a line that is too long"])
def test_only_a_task_that_says_more_than_its_answer_pays_for_it(steps: list[str], says: list[str]) -> None:
    scene = Scene()
    scene.plays(steps, says)
    innocent = [task_id for task_id in scene.begun if task_id not in _GUILTY]
    assert [(n, good) for n, good in scene.outcomes if n not in _GUILTY] == [(n, True) for n in innocent]
    assert sorted([*scene.waiting, *(n for n, _ in scene.outcomes)]) == list(_TASKS)


def test_an_idle_child_that_answers_once_more_gets_no_task() -> None:
    scene = Scene()
    scene.plays(["hand", "begin", "take back", "answer", "hear", "answer again", "hear", "hand"], ["garbage"])
    assert scene.outcomes == [(1, True)]
    assert (scene.begun, scene.handed) == ([1], [])
    assert scene.waiting == list(_TASKS)[1:]
