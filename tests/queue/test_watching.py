"""A look at tasks that somebody waits for tells what has changed since the look before, whoever commits it when."""

from __future__ import annotations

from dataclasses import dataclass

from reproq.db.connect import connect

from .conftest import Queue

_LOOK = (
    "select w.task_id, w.mark, pg_snapshot_xmin(pg_current_snapshot())::text as since from (select) one"
    " left join queues.watch_tasks(%s, %s::text[], 65536, %s::text::xid8) w on true"
)


@dataclass
class Watcher:
    """Looks as the gateway does: with the marks and the moment that the look before told."""

    q: Queue
    marks: dict[int, str | None]
    since: str | None = None

    def look(self) -> dict[int, str | None]:
        rows = self.q.rows(_LOOK, list(self.marks), list(self.marks.values()), self.since)
        news = {row["task_id"]: row["mark"] for row in rows if row["task_id"] is not None}
        self.marks |= news
        self.since = rows[0]["since"]
        return news


def watcher(q: Queue, tasks: int) -> Watcher:
    made = Watcher(q, {q.enqueue("t"): None for _ in range(tasks)})
    assert set(made.look().values()) == {"0.PENDING"}
    return made


def test_each_change_is_told_once(q: Queue) -> None:
    watching = watcher(q, 5)
    assert watching.look() == {}
    (held,) = q.claim(1)
    assert watching.look() == {held.id: "1.RUNNING"}
    assert watching.look() == {}
    q.succeed(held)
    assert watching.look() == {held.id: "1.SUCCESSFUL"}
    assert watching.look() == {}


def test_what_an_older_transaction_commits_between_two_looks_is_told(q: Queue) -> None:
    watching = watcher(q, 3)
    first, second, _ = watching.marks
    with connect(q.database.dsn, name="slow") as slow, slow.transaction():
        slow.execute("update queues.task_runs set status = 'CANCELLED', completed_at = now() where id = %s", [first])
        q.cancel(second)
        assert watching.look() == {second: "0.CANCELLED"}
        assert watching.look() == {}
    assert watching.look() == {first: "0.CANCELLED"}


def test_what_is_new_to_the_watcher_is_told_however_old_it_is(q: Queue) -> None:
    old = q.enqueue("t")
    watching = watcher(q, 2)
    watching.look()
    watching.marks[old] = None
    assert watching.look() == {old: "0.PENDING"}


def test_a_row_that_is_gone_is_told(q: Queue) -> None:
    watching = watcher(q, 3)
    hidden, removed, _ = watching.marks
    q.rows("select queues.soft_delete(%s, 'entered twice')", hidden)
    assert watching.look() == {hidden: None}
    q.rows("delete from queues.task_runs where id = %s", removed)
    assert watching.look()[removed] is None
