"""Many clients, the same idempotency keys, and minds that change."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections import Counter, defaultdict

import psycopg

from reproq.db.connect import Connection, connect
from tests.faults.scene import Scene

ROLLED_BACK, KILLED, UNANSWERED = 0.3, 0.02, 0.06
_ENQUEUE = "select queues.enqueue('work', %s, idempotency_key => %s)"


def test_s18_a_key_with_a_commit_has_one_row_and_one_id_and_a_key_without_has_none(scene: Scene) -> None:
    clients, keys = scene.size(ci=(24, 60), full=(64, 200))
    committed: dict[str, set[int]] = defaultdict(set)
    unknown: Counter[str] = Counter()
    lock = threading.Lock()

    def run(number: int) -> None:
        dice = random.Random(f"{scene.seed} {number}")
        line = connect(scene.database.app_dsn, name=f"client {number}")
        for key in dice.sample(range(keys), keys):
            name = f"key-{key}"
            payload = f'{{"n": "{name}"}}'
            fate = dice.random()
            if fate < KILLED + UNANSWERED:
                commits = fate >= KILLED and key % 20 != 0  # for some keys nobody even tries to commit
                _die(line, payload, name, commits=commits, after_s=dice.uniform(0, 0.002))
                unknown[name] += commits
                line = connect(scene.database.app_dsn, name=f"client {number}")
                if not commits or dice.random() < 0.5:  # the others ask again, as a client should
                    continue
            rolled_back = dice.random() < ROLLED_BACK or key % 10 == 0  # a tenth of the keys is never committed
            task = _enqueue(line, payload, name, rolled_back)
            if not rolled_back:
                with lock:
                    committed[name].add(task)
        line.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    scene.worker().ready()
    for thread in threads:
        thread.join()
    scene.wait_all_over()
    rows: dict[str, list[int]] = defaultdict(list)
    for row in scene.evidence().rows.values():
        rows[str(row.token)].append(row.id)
    assert {name: sorted(ids) for name, ids in committed.items()} == {name: rows[name] for name in committed}
    assert all(len(ids) == 1 for ids in rows.values())
    assert set(rows) - set(committed) <= set(+unknown), "a key that nobody committed has a row"
    alone = set(+unknown) - set(committed)
    print(
        f"{len(rows)} rows, {unknown.total()} unanswered commits, {len(alone & set(rows))} of {len(alone)} alone took"
    )
    assert unknown.total() >= clients
    assert not any(f"key-{key}" in rows for key in range(0, keys, 20))
    scene.check("I2 I3 I4 I5 I6 I7 I8 I9")  # I1 is what stands above


def _enqueue(line: Connection, payload: str, key: str, rolled_back: bool) -> int:
    with line.transaction(force_rollback=rolled_back):
        row = line.execute(_ENQUEUE, [payload, key]).fetchone()
    assert row is not None
    return int(str(row[0]))


def _die(line: Connection, payload: str, key: str, *, commits: bool, after_s: float) -> None:
    """As a client that is killed after its enqueue, or after its commit before the answer: the connection just ends."""
    line.execute("begin")
    line.execute(_ENQUEUE, [payload, key])
    if commits:
        line.pgconn.send_query(b"commit")
        line.pgconn.flush()
        time.sleep(after_s)
    with socket.socket(fileno=os.dup(line.fileno())) as wire:
        wire.shutdown(socket.SHUT_RDWR)
    try:
        line.close()
    except psycopg.Error:
        pass
