"""Hand-over to other processes: a warm child over pipes, a fork per task, a spawn per task."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time

from reproq.bench.figures import Figure, Step, Values
from reproq.bench.lab import Lab

_CHILD = """
import json, sys
out = sys.stdout.buffer
for line in sys.stdin.buffer:
    order = json.loads(line)
    out.write(json.dumps({"v": 1, "id": order["id"], "success": True, "payload": order["payload"]}).encode() + b"\\n")
    out.flush()
"""
_ORDER = {"v": 1, "do": "run", "claim_no": 1, "task_type": "bench.noop", "queue_name": "default", "attempt": 1}


def echo(lab: Lab) -> Values:
    found: Values = {}
    for children, ahead in ((1, 1), (2, 1), (2, 8)):
        found[f"floor.echo.{children}.{ahead}"] = _echo_rate(children, ahead, lab.count(30_000, 500))
    return found


def _echo_rate(children: int, ahead: int, tasks: int) -> float:
    pool = [
        subprocess.Popen([sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        for _ in range(children)
    ]
    try:
        _echo(pool, ahead, 50 * children)
        began = time.perf_counter()
        _echo(pool, ahead, tasks)
        return tasks / (time.perf_counter() - began)
    finally:
        for child in pool:
            child.kill()
            child.communicate()


def _echo(pool: list[subprocess.Popen[bytes]], ahead: int, tasks: int) -> None:
    """Each child has `ahead` lines in its pipe; an answer is read as JSON before the next line goes out."""
    sent = done = 0
    with selectors.DefaultSelector() as selector:
        for child in pool:
            assert child.stdin and child.stdout
            selector.register(child.stdout, selectors.EVENT_READ, child.stdin)
            child.stdin.write(b"".join(_line(sent + n) for n in range(ahead)))
            sent += ahead
        rest = dict.fromkeys(selector.get_map(), b"")
        while done < sent:
            for key, _events in selector.select():
                *lines, rest[key.fd] = (rest[key.fd] + os.read(key.fd, 1 << 16)).split(b"\n")
                for line in lines:
                    json.loads(line)
                done += len(lines)
                more = min(len(lines), max(0, tasks - sent))
                if more:
                    os.write(key.data.fileno(), b"".join(_line(sent + n) for n in range(more)))
                sent += more


def _line(number: int) -> bytes:
    return json.dumps({**_ORDER, "id": number, "payload": {"n": number}}).encode() + b"\n"


def fork(lab: Lab) -> Values:
    """From a process of its own without threads, as large as an app with a driver loaded."""
    code = "from reproq.bench.floors.processes import fork_rate; import psycopg; print(fork_rate({}))"
    done = subprocess.run(
        [sys.executable, "-c", code.format(lab.count(800, 50))],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return {"floor.fork": float(done.stdout)}


def fork_rate(tasks: int) -> float:
    began = time.perf_counter()
    for number in range(tasks):
        source, sink = os.pipe()
        pid = os.fork()
        if not pid:
            os.write(sink, _line(number))
            os._exit(0)
        os.close(sink)
        json.loads(os.read(source, 1 << 16))
        os.close(source)
        os.waitpid(pid, 0)
    return tasks / (time.perf_counter() - began)


def spawn(lab: Lab) -> Values:
    tasks, live = lab.count(80, 10), []
    began = time.perf_counter()
    for _ in range(tasks):
        live.append(subprocess.Popen([sys.executable, "-c", "pass"]))
        if len(live) >= 2:
            live.pop(0).wait()
    for process in live:
        process.wait()
    return {"floor.spawn": tasks / (time.perf_counter() - began)}


STEPS = (
    Step(
        "floor: warm children",
        "Floors",
        echo,
        [
            Figure("floor.echo.1.1", "JSON line to a warm child and back, one at a time"),
            Figure("floor.echo.2.1", "the same, 2 children"),
            Figure("floor.echo.2.8", "the same, 2 children, 8 in each pipe"),
        ],
        5,
    ),
    Step("floor: fork", "Floors", fork, [Figure("floor.fork", "fork per task, one JSON line back")], 3),
    Step(
        "floor: spawn",
        "Floors",
        spawn,
        [Figure("floor.spawn", "spawn `python -c pass` per task, 2 at once", "/s", "floor.fork")],
        3,
    ),
)
