"""Lines to a child (the wire, version 1; docs/wire.md). The payload passes through as the text that it is."""

from __future__ import annotations

import json

from reproq.models.execution import Execution

_ORDER = b'{"v":1,"do":'
_RUN = _ORDER + b'"run","id":'


def run_line_head(e: Execution) -> bytes:
    """How the line of an execution begins: enough to know it by."""
    return b'%b%d,"claim_no":%d' % (_RUN, e.id, e.claim_no)


def run_line_id(head: bytes) -> int | None:
    """The task of a line that begins so; None: it isn't for a task."""
    end = head.find(b',"claim_no"')
    return int(head[len(_RUN) : end]) if head.startswith(_RUN) and end > 0 else None


def is_torn(head: bytes) -> bool:
    """Whether what a child has not read begins in the middle of a line."""
    return bool(head) and not head.startswith(_ORDER)


class Orders:
    """`worker_name` is what children see of their worker; the part that makes a fence stays with the runner."""

    def __init__(self, worker_name: str) -> None:
        self._worker = json.dumps(worker_name)

    def run(self, e: Execution) -> bytes:
        deadline = "null" if e.timeout_s is None else repr(e.timeout_s)
        trace = "" if e.trace is None else f'"trace":{json.dumps(e.trace)},'
        key = f'"task-{e.id}"' if e.idempotency_key is None else json.dumps(e.idempotency_key)
        return (
            f'{{"v":1,"do":"run","id":{e.id},"claim_no":{e.claim_no},"worker_id":{self._worker},'
            f'"task_type":"{e.task_type}","queue_name":"{e.queue_name}","attempt":{e.attempt},'
            f'"max_attempts":{e.max_attempts},"deadline_s":{deadline},"idempotency_key":{key},{trace}"payload":{e.payload}}}\n'
        ).encode()

    @staticmethod
    def cancel(e: Execution) -> bytes:
        return b'{"v":1,"do":"cancel","id":%d,"claim_no":%d}\n' % (e.id, e.claim_no)
