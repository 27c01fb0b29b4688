"""A child in another language, so to speak, that answers what no child may answer. Standard library only."""

from __future__ import annotations

import json
import os
from typing import Any

BAD = "bad_envelope"
# What it answers -> the failure that its task must end with.
KINDS = {
    "no_json": BAD,
    "not_an_object": BAD,
    "wrong_id": BAD,
    "wrong_claim": BAD,
    "two_lines": BAD,
    "success_with_error": BAD,
    "failure_without_reason": BAD,
    "nan": BAD,
    "nul": BAD,
    "surrogate": BAD,
    "deep": BAD,
    "digits": BAD,
    "not_utf8": BAD,
    "endless": BAD,
    "empty_line": BAD,
    "half_a_line": "exited",
}


def answer(order: dict[str, Any]) -> bytes:
    how = order["payload"]["how"]
    head = {"v": 1, "id": order["id"], "claim_no": order["claim_no"], "success": True}
    made: dict[str, Any] = {
        "no_json": b"all is well\n",
        "not_an_object": b"[1, 2]\n",
        "wrong_id": head | {"id": order["id"] + 1},
        "wrong_claim": head | {"claim_no": order["claim_no"] - 1},
        "two_lines": json.dumps(head).encode() + b"\n" + json.dumps(head).encode() + b"\n",
        "success_with_error": head | {"error": "and yet"},
        "failure_without_reason": head | {"success": False},
        "nan": head | {"payload": float("nan")},
        "nul": head | {"payload": "a\0b"},
        "surrogate": json.dumps(head | {"payload": "\ud800"}).encode() + b"\n",
        "deep": json.dumps(head)[:-1].encode() + b', "payload": ' + b"[" * 900 + b"]" * 900 + b"}\n",
        "digits": json.dumps(head)[:-1].encode() + b', "payload": ' + b"9" * 5000 + b"}\n",
        "not_utf8": json.dumps(head)[:-1].encode() + b', "payload": "\xff\xfe"}\n',
        "endless": b"x" * (2 << 20),
        "empty_line": b"\n",
        "half_a_line": json.dumps(head).encode()[:20],
    }
    line = made[how]
    return line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"


def main() -> None:
    with open(0, "rb", buffering=0) as orders:
        os.write(1, b'{"v":1}\n')
        for text in orders:
            order = json.loads(text)
            if order["do"] == "stop":
                return
            if order["do"] == "run":
                line = answer(order)
                while line:
                    line = line[os.write(1, line) :]
                if order["payload"]["how"] == "half_a_line":
                    os._exit(3)


if __name__ == "__main__":
    main()
