"""One email, as its process: the first attempt is refused, the second one arrives.

python examples/processes/fail_retry_succeed.py
"""

from __future__ import annotations

from house import house


def main() -> None:
    with house(refusals=1) as here:
        here.owner("update comms.setting set backoff_base = '2 seconds'")  # instead of 10
        number = here.app(
            "select comms.send_email('ann@example.org', 'Your login', text_body => 'Welcome, Ann.', max_attempts => 2)"
        )
        print(f"send {number}: the application's part is done, and it may go")
        here.wait_for_end("comms.send_email", number)
        here.reproq("process", "show", "comms.send_email", str(number))
        print(f"\nthe mail server has taken {len(here.mail.accepted)} message:\n\n{here.mail.accepted[0]}")


main()
