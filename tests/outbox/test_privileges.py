"""What each login may do with events, tried with a real one of each."""

from __future__ import annotations

import psycopg
import pytest

from reproq.db.connect import as_sql
from tests.outbox.office import Office

CANARY = "canary-77d1"
OWN = {
    "queues.dispatch_sinks(text[])", "queues.claim_deliveries(text,interval,integer,integer,bigint,text)",
    "queues.finish_deliveries(text,jsonb)", "queues.rest_dispatcher(text,interval)",
    "internal.schema_state()",
}  # fmt: skip


def refused(office: Office, dsn: str, statement: str) -> bool:
    with psycopg.connect(dsn, autocommit=True) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(as_sql(statement))
    return True


def test_a_dispatchers_login_claims_and_acknowledges_and_nothing_else(office: Office) -> None:
    rows = office.sql(
        "select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
        " where n.nspname in ('queues', 'internal', 'comms')"
        " and has_function_privilege('reproq_dispatcher', p.oid, 'EXECUTE')"
    )
    assert {name for (name,) in rows} == OWN
    for statement in (
        "select queues.publish_event('a')", "select queues.put_sink('a', 'https://a')", "select queues.list_sinks()",
        "select queues.replay_events('a')", "select queues.enqueue('a')", "select queues.parked_deliveries()",
        "select from queues.outbox_event", "select from queues.outbox_delivery", "select from queues.sinks_redacted",
    ):  # fmt: skip
        assert refused(office, office.dsn, statement)


def test_an_application_publishes_and_sees_nothing(office: Office) -> None:
    office.publish()
    for statement in (
        "select queues.claim_deliveries('a', '1 s', 1)", "select queues.put_sink('a', 'https://a')",
        "select queues.list_sinks()", "select from queues.outbox_event", "select queues.engine_events('default')",
    ):  # fmt: skip
        assert refused(office, office.database.app_dsn, statement)
        assert refused(office, office.database.worker_dsn, statement)


def test_a_reader_sees_neither_data_nor_subject_nor_address_nor_error(office: Office) -> None:
    office.sink("shop", f"https://hooks.example.com/{CANARY}?{CANARY}", allow_private=False)
    office.publish("shop.paid", CANARY, {CANARY: CANARY})
    office.sql("update queues.outbox_delivery set last_error = %s", CANARY)
    with office.admin.transaction():
        office.sql("set local role reproq_reader")
        for view in ("outbox", "deliveries", "sinks"):
            (row,) = office.sql(f"select to_jsonb(v)::text from queues.{view}_redacted v")
            assert CANARY not in row[0], row
        assert office.one("select host from queues.sinks_redacted") == "https://hooks.example.com"


def test_the_mark_of_a_dispatcher_wakes_no_worker_and_cannot_be_anybody_elses(office: Office) -> None:
    with psycopg.connect(office.dsn, autocommit=True) as connection:
        for name in ("host/1/uuid", "", None):
            with pytest.raises(psycopg.Error) as wrong:
                connection.execute("select queues.rest_dispatcher(%s, '1 s')", (name,))
            assert wrong.value.sqlstate == "RQ003"
        connection.execute("select queues.rest_dispatcher('dispatcher/x', '1 day')")
    assert office.one("select until < now() + interval '61 s' from queues.sleeper")


def test_a_busy_publisher_notifies_nobody(office: Office) -> None:
    office.sink("shop", "https://hooks.example.com", allow_private=False)
    office.sql("listen reproq_outbox")
    office.publish()
    assert list(office.admin.notifies(timeout=0)) == []
    office.sql("select queues.rest_dispatcher('dispatcher/x', '1 minute')")
    office.publish("nobody.wants", None)
    assert len(list(office.admin.notifies(timeout=5, stop_after=1))) == 1


@pytest.mark.parametrize("number", ["%s", '"0%s"'])
def test_an_event_that_is_told_of_twice_counts_once(office: Office, number: str) -> None:
    """Else one that was delivered would wait again, and no later answer of its batch could be stored."""
    office.sink("shop", "https://hooks.example.com", allow_private=False)
    office.publish("shop.paid", "7", {CANARY: 1})
    told = "select answer from queues.finish_deliveries('shop', %s::jsonb)"
    with psycopg.connect(office.dsn, autocommit=True) as connection:
        (held,) = connection.execute("select event_number from queues.claim_deliveries('shop', '30 s', 5)").fetchall()
        outcome = f'{{"event_number": {number % held[0]}, "claim_no": 1, "result": '
        twice = f'[{outcome}"delivered"}}, {outcome}"failed"}}, {outcome}"failed"}}]'
        assert connection.execute(as_sql(told), (twice,)).fetchall() == [("done",)]
        assert connection.execute(as_sql(told), (twice,)).fetchall() == [("already",)]
    assert office.sql("select state, attempts, sinks_open from queues.outbox_delivery join queues.outbox_event e"
                      " on e.id = outbox_delivery.event_id") == [("delivered", 1, 0)]  # fmt: skip


def test_what_is_no_list_of_outcomes_is_refused_in_words(office: Office) -> None:
    with psycopg.connect(office.dsn, autocommit=True) as connection:
        for nonsense in (None, "7", "{}", "null"):
            with pytest.raises(psycopg.Error) as wrong:
                connection.execute("select queues.finish_deliveries('shop', %s::jsonb)", (nonsense,))
            assert wrong.value.sqlstate == "RQ003"
