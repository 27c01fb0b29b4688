from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli import sends
from tests.cli.conftest import Call
from tests.conftest import Database

pytestmark = pytest.mark.every_server

# A process whose supervisor does what any may do: it inserts, updates, deletes, and writes behind an EXCEPTION block.
VISIT = """
    create schema shop;
    create table shop.visit_task (visit_task_id bigint primary key, note text);
    create table shop.visit_task_seen (seen_id bigint primary key, visit_task_id bigint, created_at timestamptz);
    create table shop.plain (note text);
    create table shop.same (id bigint primary key);
    insert into shop.visit_task values (1, 'old'), (2, 'other');
    insert into shop.visit_task_seen values (10, 1, now()), (11, 1, now());
    insert into shop.plain values ('gone'), ('stays');
    insert into shop.same values (1);
    create function shop.visit_supervisor(payload jsonb) returns jsonb language plpgsql as $$
    begin
        perform from shop.same for update;
        insert into shop.visit_task_seen values (12, 1, now());
        begin
            insert into shop.visit_task_seen values (13, 1, now());
        exception when others then null;
        end;
        begin
            insert into shop.visit_task_seen values (14, 1, now());
            raise exception 'taken back';
        exception when others then null;
        end;
        update shop.visit_task set note = 'first' where visit_task_id = 1;
        update shop.visit_task set note = 'new' where visit_task_id = 1;
        delete from shop.visit_task_seen where seen_id = 10;
        delete from shop.plain where note = 'gone';
        return '{"success": true}';
    end $$;
"""


def everything(database: Database) -> dict[str, Any]:
    tables = database.execute(
        "select relid::regclass::text from pg_stat_user_tables"
        " where schemaname in ('queues', 'internal', 'comms', 'shop')"
    )
    return {
        table: database.execute(f"select xmin, ctid::text, t::text from {table} t order by ctid")
        for (table,) in sorted(tables)
    }


def rehearsed(call: Call, *arguments: str) -> dict[str, Any]:
    status, out, err = call("process", "dry-run", *arguments, "--json", role="admin")
    assert (status, err) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    return answer


def writes(rehearsal: dict[str, Any]) -> list[tuple[str, str]]:
    return [(write["what"], write["table"]) for write in rehearsal["writes"]]


def test_a_first_run_would_write_the_attempt_its_task_and_the_next_run(call: Call, database: Database) -> None:
    number = sends.send(database)
    before = everything(database)
    rehearsal = rehearsed(call, "comms.send_email_supervisor", "--id", str(number))
    assert rehearsal["answer"]["payload"]["decided"] == "send: attempt 1"
    assert sorted(writes(rehearsal)) == [
        ("insert", "comms.send_email_task_decided"),
        ("insert", "comms.send_email_task_scheduled"),
        ("insert", "queues.task_runs"),
        ("insert", "queues.task_runs"),
    ]
    types = [write["row"]["task_type"] for write in rehearsal["writes"] if write["table"] == "queues.task_runs"]
    assert types == ["email", "db_function"]
    assert everything(database) == before


def test_an_end_would_take_the_process_out_of_the_registry(call: Call, database: Database) -> None:
    number = sends.send(database)
    sends.supervise(database, number)
    sends.fail(database, sends.begin(database, number))
    before = everything(database)
    rehearsal = rehearsed(call, "comms.send_email", "--id", str(number))
    assert ("insert", "comms.send_email_task_ended") in writes(rehearsal)
    assert ("delete", "internal.open_process") in writes(rehearsal)
    assert everything(database) == before
    out = call("process", "dry-run", "comms.send_email", "--id", str(number), role="admin")[1]
    assert "delete internal.open_process" in out
    assert out.endswith("rolled back: nothing of this was kept\n")


def test_every_kind_of_write_is_seen_and_a_mere_lock_is_none(call: Call, database: Database) -> None:
    database.execute(VISIT)
    before = everything(database)
    rehearsal = rehearsed(call, "shop.visit_supervisor", "--id", "1")
    told = {(write["what"], write["table"], json.dumps(write["row"].get("seen_id"))) for write in rehearsal["writes"]}
    assert told == {
        ("insert", "shop.visit_task_seen", "12"),
        ("insert", "shop.visit_task_seen", "13"),
        ("delete", "shop.visit_task_seen", "10"),
        ("update", "shop.visit_task", "null"),
        ("delete", "shop.plain", "null"),
    }
    (update,) = [write for write in rehearsal["writes"] if write["what"] == "update"]
    assert (update["before"]["note"], update["row"]["note"]) == ("old", "new")
    assert everything(database) == before
    out = call("process", "dry-run", "shop.visit_supervisor", "--id", "1", role="admin")[1]
    assert "new   was old" in out


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise exception 'no such %', payload ->> 'visit_task_id';", "no such 1"),
        ("""insert into shop.plain values ('x'); return '{"success": false, "error": "not today"}';""", "not today"),
        ("return null;", "null"),
    ],
)
def test_a_supervisor_that_fails_is_shown_as_failing(call: Call, database: Database, body: str, told: str) -> None:
    database.execute(VISIT)
    head = "create or replace function shop.visit_supervisor(payload jsonb) returns jsonb language plpgsql as"
    database.execute(f"{head} $$ begin {body} end $$")
    status, out, err = call("process", "dry-run", "shop.visit", "--id", "1", role="admin")
    assert status == 1
    assert told in out
    assert "a worker would keep none of this and retry it" in err
    assert database.execute("select count(*) from shop.plain") == [(2,)]


def test_a_process_that_is_not_there_is_status_1(call: Call, database: Database) -> None:
    status, out, err = call("process", "dry-run", "comms.send_email", "--id", "4711", role="admin")
    assert (status, out, "no comms.send_email 4711" in err) == (1, "", True)
