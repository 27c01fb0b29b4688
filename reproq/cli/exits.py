"""Exit statuses. Service managers and scripts rely on them."""

from typing import Final

DONE: Final = 0  # a worker: every claimed row was finished or given back
FAILED: Final = 1
USAGE: Final = 2  # usage, settings, wrong password, missing schema: a person must act, starting again won't help
UNSEEN: Final = 3  # doctor: nothing was found, but this login couldn't see everything
CANCELLED: Final = 4  # what was waited for: nobody wanted it any more
CHILDREN_IMPOSSIBLE: Final = 70  # EX_SOFTWARE: the app can't be imported, or no process can be started
LATE: Final = 124  # as timeout(1) says it
INTERRUPTED: Final = 130
