"""What a Python child costs: CPU per no-op task over its pipes, memory, and CPU of its start beyond a bare Python's.

python bench/child.py [tasks]
"""

# ruff: noqa: T201  (a program for a terminal)
from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from reproq.executor.guard_client import child_command  # noqa: E402  (the checkout's own, wherever we are started)

APP = """
from reproq import task
@task("noop")
def noop(payload): pass
@task("echo")
def echo(payload): return payload
@task("context")
def context(payload, ctx): return ctx.attempt
"""


def order(kind: str, number: int) -> bytes:
    fields = {"v": 1, "do": "run", "id": number, "claim_no": 1, "worker_id": "host/123/5f6c", "task_type": kind}
    fields |= {"queue_name": "default", "attempt": 1, "max_attempts": 3, "deadline_s": None}
    return json.dumps({**fields, "idempotency_key": f"task-{number}", "payload": {"n": number}}).encode() + b"\n"


class Child:
    def __init__(self, folder: str) -> None:
        self.log, log = os.pipe()
        self.process = subprocess.Popen(
            child_command(["app"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment(),
            cwd=folder,
        )
        os.close(log)
        assert self.process.stdin and self.process.stdout
        self.stdin, self.stdout = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.take(1)

    def take(self, lines: int) -> None:
        while lines:
            lines -= os.read(self.stdout, 1 << 16).count(b"\n")

    def cpu_us(self) -> float:
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0]) / 1000

    def resident_mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "reproq-bench-pyc"),
    }


def tasks(folder: str, kind: str, count: int, ahead: int) -> str:
    child = Child(folder)
    batches = [b"".join(order(kind, n + i) for i in range(ahead)) for n in range(0, count, ahead)]
    cpu, began = child.cpu_us(), time.monotonic()
    for batch in batches:
        os.write(child.stdin, batch)
        child.take(ahead)
    seconds = time.monotonic() - began
    cost = (child.cpu_us() - cpu) / count
    text = f"{cost:6.2f} µs CPU a task, {count / seconds:8,.0f}/s, {child.resident_mib():.1f} MiB"
    child.process.kill()
    child.process.wait()
    return text


def start_ms(folder: str, command: list[str], times: int = 30) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(times):
        subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment(), cwd=folder, check=True
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / times * 1000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(APP)
        for ahead in (1, 4):
            for kind in ("noop", "echo", "context"):
                print(f"{kind:8} {ahead} in the pipe: {tasks(folder, kind, count, ahead)}")
        bare = start_ms(folder, [sys.executable, "-c", "pass"])
        print(f"start: bare Python {bare:.1f} ms CPU, child {start_ms(folder, child_command(['app'])) - bare:+.1f} ms")


if __name__ == "__main__":
    main()
