"""Exit statuses. Service managers and scripts rely on them."""

from typing import Final

DONE: Final = 0  # a worker: every claimed row was finished or given back
FAILED: Final = 1
USAGE: Final = 2  # usage, settings, wrong password, missing schema: a person must act, starting again won't help
UNSEEN: Final = 3  # doctor: nothing was found, but this login couldn't see everything
CHILDREN_IMPOSSIBLE: Final = 70  # EX_SOFTWARE: the app can't be imported, or no process can be started
INTERRUPTED: Final = 130
