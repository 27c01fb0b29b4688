"""Draws docs/states.md from the table in reproq/models: python docs/draw_states.py > docs/states.md"""

import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from reproq.models.states import TRANSITIONS, Happening, State

PAGE = """# The states of a task

Drawn from `TRANSITIONS` in `reproq/models/states.py` by `python docs/draw_states.py > docs/states.md`; a test compares
this page, the table and the database.

```mermaid
stateDiagram-v2
    [*] --> PENDING: enqueue
{arrows}
```

What isn't in the table changes nothing: the call answers `lost`, `already`, `too_late`, `not_ended` or `succeeded`.
A give-back or a snooze leads to PENDING on a first attempt and to RETRYING on a later one; the table shows the first.
`STOPPING` is the status `CANCELLED` with a lease still held: its code is being stopped.

| what happens | {states} |
|---|{rules}|
{rows}
"""


def arrows() -> str:
    causes: dict[tuple[State, State], list[str]] = defaultdict(list)
    for (state, happening), target in TRANSITIONS.items():
        causes[state, target].append(happening.value.replace(":", ""))
    return "\n".join(f"    {a.name} --> {b.name}: {' / '.join(words)}" for (a, b), words in causes.items())


def row(happening: Happening) -> str:
    targets = (TRANSITIONS.get((state, happening)) for state in State)
    return f"| {happening.value} | " + " | ".join(target.name if target else "–" for target in targets) + " |"


def draw() -> str:
    states = " | ".join(state.name for state in State)
    return PAGE.format(
        arrows=arrows(), states=states, rules="|".join("---" for _ in State), rows="\n".join(map(row, Happening))
    )


if __name__ == "__main__":
    sys.stdout.write(draw())
