"""A process that starts others and waits for them: 0001_newsletter.sql.

python examples/processes/supervision_tree.py
"""

from __future__ import annotations

from pathlib import Path

from house import house

ADDRESSES = ["ann@example.org", "bob@example.org", "cyd@example.org"]
KICKOFF = "select newsletter.kickoff_edition_task('May', %s, now() + interval '12 seconds')"


def main() -> None:
    with house(refusals=1) as here:
        here.owner("update comms.setting set backoff_base = '2 seconds'")
        here.reproq("migrate", "--dir", str(Path(__file__).parent))
        number = here.app(KICKOFF, ADDRESSES)
        here.wait_for_end("newsletter.edition", number)
        here.reproq("process", "list")
        here.reproq("process", "show", "newsletter.edition", str(number))


main()
