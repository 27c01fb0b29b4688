"""What is final goes after its time, in batches; what isn't stays."""

from __future__ import annotations

import pytest

from tests.conftest import Database


def _row(database: Database, status: str, days: float, *, queue: str = "default", deleted: bool = False) -> int:
    (task,) = database.execute("select queues.enqueue('t', queue_name => %s)", queue)[0]
    final = status in ("SUCCESSFUL", "FAILED", "CANCELLED")
    database.execute(
        "update queues.task_runs set status = %s::queues.task_status, created_at = now() - %s * interval '1 day',"
        " completed_at = case when %s then now() - %s * interval '1 day' end, result_json = 'null',"
        " failure_kind = case when %s = 'FAILED' then 'raised' end,"
        " leased_until = case when %s = 'RUNNING' then now() + interval '1 hour' end, worker_id = 'w',"
        " deleted_at = case when %s then now() - %s * interval '1 day' end where id = %s",
        status, days, final, days, status, status, deleted, days, task,
    )  # fmt: skip
    return int(task)


def clean(database: Database) -> dict[str, int]:
    return dict(database.execute("select internal.clean_up('90 seconds')")[0][0])


def left(database: Database) -> list[int]:
    return [row[0] for row in database.execute("select id from queues.task_runs order by id")]


@pytest.mark.parametrize(
    ("status", "days"), [("SUCCESSFUL", 7), ("CANCELLED", 7), ("FAILED", 90)], ids=["successful", "cancelled", "failed"]
)
def test_a_final_row_is_kept_for_its_time(database: Database, status: str, days: int) -> None:
    _row(database, status, days + 0.1)
    young = _row(database, status, days - 0.1)
    assert clean(database)["tasks_forgotten"] == 1
    assert left(database) == [young]


@pytest.mark.parametrize("status", ["PENDING", "RETRYING", "RUNNING"])
def test_what_is_not_over_is_never_forgotten(database: Database, status: str) -> None:
    old = _row(database, status, 5000)
    assert clean(database)["tasks_forgotten"] == 0
    assert left(database) == [old]


def test_a_cancelled_task_that_is_still_stopping_stays(database: Database) -> None:
    old = _row(database, "CANCELLED", 5000)
    database.execute("update queues.task_runs set leased_until = now()")
    clean(database)
    assert left(database) == [old]


def test_a_deleted_row_goes_as_a_cancelled_one_whatever_it_was(database: Database) -> None:
    _row(database, "PENDING", 8, deleted=True)
    young = _row(database, "PENDING", 6, deleted=True)
    clean(database)
    assert left(database) == [young]


def test_a_queue_may_keep_its_rows_longer_or_shorter(database: Database) -> None:
    database.execute(
        "insert into queues.queue_settings (queue_name, keep_successful)"
        " values ('short', '1 hour'), ('long', '99 years')"
    )
    _row(database, "SUCCESSFUL", 0.1, queue="short")
    long = _row(database, "SUCCESSFUL", 5000, queue="long")
    clean(database)
    assert left(database) == [long]


def test_all_of_a_long_history_is_walked_through_batch_by_batch(database: Database) -> None:
    database.execute(
        "select queues.enqueue_many('t', array(select jsonb_build_object('n', n) from generate_series(1, 12000) n))"
    )
    database.execute(
        "update queues.task_runs"
        " set status = 'SUCCESSFUL', result_json = 'null', completed_at = now() - interval '8 days',"
        " created_at = now() - interval '9 days' where id % 2 = 0"
    )
    database.execute("update queues.task_runs set created_at = now() - interval '9 days'")
    forgotten, more, calls = 0, True, 0
    while more:
        done = clean(database)
        forgotten, more, calls = forgotten + done["tasks_forgotten"], bool(done["more"]), calls + 1
    assert (forgotten, calls) == (6000, 3)
    assert len(left(database)) == 6000


def test_events_errors_and_silent_workers_go_too(database: Database) -> None:
    database.execute(
        "insert into queues.task_events (task_id, event, created_at) values (1, 'failed', now() - interval '91 days')"
    )
    database.execute("insert into queues.task_events (task_id, event) values (2, 'failed')")
    database.execute(
        "insert into queues.error (source, message, created_at) values ('x', 'y', now() - interval '91 days')"
    )
    database.execute(
        "insert into queues.workers (id, hostname, pid, version, pool_size, last_heartbeat)"
        " values ('w', 'h', 1, '1', 1, now() - interval '91 s')"
    )
    done = clean(database)
    assert (done["events_forgotten"], done["workers_removed"]) == (2, 1)
    assert database.execute("select task_id from queues.task_events") == [(2,)]


def test_null_keeps_for_ever(database: Database) -> None:
    database.execute("update queues.settings set keep_successful = null, keep_events = null, keep_processes = null")
    old = _row(database, "SUCCESSFUL", 5000)
    clean(database)
    assert left(database) == [old]
