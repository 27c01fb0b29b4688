"""Which task goes to which worker, and in what order."""

from __future__ import annotations

import json

import pytest

from tests.worker.harness import House

APP = """
def note(ctx):
    with open(HERE + "/order", "a") as file:
        file.write(f"{ctx.queue_name} {ctx.task_type} {ctx.id}\\n")

@task("media.resize")
def resize(payload, ctx: Context): note(ctx)

@task("mediax.resize")
def other(payload, ctx: Context): note(ctx)

@task("email.send")
def send(payload, ctx: Context): note(ctx)

@task("a_b.c")
def underscore(payload, ctx: Context): note(ctx)

@task("axb.c")
def no_underscore(payload, ctx: Context): note(ctx)
"""


@pytest.fixture(autouse=True)
def app(house: House) -> None:
    house.app(APP)


def order(house: House) -> list[list[str]]:
    return [line.split() for line in house.mark("order").read_text().splitlines()]


def test_higher_priorities_first_then_the_earlier_due_then_the_lower_id(house: House) -> None:
    plain = [house.enqueue("email.send") for _ in range(2)]
    early = house.enqueue("email.send", scheduled_at="2020-01-01")
    high = house.enqueue("email.send", priority=5)
    higher = house.enqueue("media.resize", priority=6)
    low = house.enqueue("media.resize", priority=-1, scheduled_at="2019-01-01")
    assert house.worker("--until-empty").status() == 0
    assert [int(task_id) for *_, task_id in order(house)] == [higher, high, early, *plain, low]


def test_a_worker_takes_turns_between_its_queues(house: House) -> None:
    for queue in ("one", "two"):
        house.enqueue_many("email.send", [{}] * 10, queue_name=queue)
    assert house.worker("--until-empty", "--queue", "one", "--queue", "two").status() == 0
    queues = [queue for queue, *_ in order(house)]
    assert len(queues) == 20
    assert {"one", "two"} <= set(queues[:6])


def test_a_worker_leaves_other_queues_alone(house: House) -> None:
    mine = house.enqueue("email.send", queue_name="mine")
    others = house.enqueue("email.send", queue_name="others", priority=10)
    assert house.worker("--until-empty", "--queue", "mine").status() == 0
    assert house.row(mine)["status"] == "SUCCESSFUL"
    assert (house.row(others)["status"], house.row(others)["claim_no"]) == ("PENDING", 0)


def test_a_queue_name_that_needs_escaping_reaches_the_task(house: House) -> None:
    try:
        task_id = house.enqueue("email.send", queue_name='a "quoted\\name"')
    except Exception as refused:  # noqa: BLE001 - then no such name can reach a worker either
        assert "queue" in str(refused)
        return
    assert house.worker("--until-empty").status() == 0
    assert house.row(task_id)["status"] == "SUCCESSFUL"


@pytest.mark.parametrize("how", ["flags", "environment", "file"])
def test_a_worker_with_prefixes_runs_the_types_that_start_so_and_nothing_else(house: House, how: str) -> None:
    types = ("media.resize", "mediax.resize", "email.send", "media.unknown")
    ids = {task_type: house.enqueue(task_type) for task_type in types}
    if how == "flags":
        worker = house.worker("--until-empty", "--type-prefix", "media.", "--type-prefix", "email.")
    elif how == "environment":
        worker = house.worker("--until-empty", WORKER_TYPE_PREFIXES="media.,email.")
    else:
        file = house.config("type_prefixes = " + json.dumps(["media.", "email."]))
        worker = house.worker("--until-empty", "--config", file)
    assert worker.status() == 0
    states = {task_type: house.row(task_id)["status"] for task_type, task_id in ids.items()}
    assert states == {
        "media.resize": "SUCCESSFUL",
        "email.send": "SUCCESSFUL",
        "media.unknown": "FAILED",
        "mediax.resize": "PENDING",
    }


def test_an_underscore_and_a_percent_sign_in_a_prefix_are_plain_characters(house: House) -> None:
    mine, other = house.enqueue("a_b.c"), house.enqueue("axb.c")
    assert house.worker("--until-empty", "--type-prefix", "a_b").status() == 0
    assert (house.row(mine)["status"], house.row(other)["status"]) == ("SUCCESSFUL", "PENDING")


def test_flags_win_over_the_environment(house: House) -> None:
    mine, other = house.enqueue("email.send", queue_name="mine"), house.enqueue("email.send", queue_name="other")
    assert house.worker("--until-empty", "--queue", "mine", REPROQ_QUEUES="other").status() == 0
    assert (house.row(mine)["status"], house.row(other)["status"]) == ("SUCCESSFUL", "PENDING")


def test_two_workers_with_two_prefixes_share_one_queue(house: House) -> None:
    ids = house.enqueue_many("media.resize", [{}] * 5) + house.enqueue_many("email.send", [{}] * 5)
    media = house.worker("--type-prefix", "media.", "--worker-id", "media").ready()
    email = house.worker("--type-prefix", "email.", "--worker-id", "email").ready()
    names = {(row["task_type"], row["worker_id"].split("/")[0]) for row in house.finals(ids)}
    assert names == {("media.resize", "media"), ("email.send", "email")}
    assert (media.stop(), email.stop()) == (0, 0)


def test_a_cancelled_and_a_future_task_dont_keep_a_worker_that_runs_until_empty(house: House) -> None:
    gone, later = house.enqueue("email.send"), house.enqueue("email.send", scheduled_at="2100-01-01")
    assert house.cancel(gone) == "cancelled"
    assert house.worker("--until-empty").status() == 0
    assert house.row(gone)["status"] == "CANCELLED"
    assert house.row(later)["status"] == "PENDING"


def test_a_worker_that_runs_until_empty_waits_for_retries(house: House) -> None:
    house.app(
        "@task('again', backoff_base=0.2)\ndef again(payload, ctx: Context):\n    if ctx.attempt < 3: raise Retry()\n"
    )
    task_id = house.enqueue("again")
    assert house.worker("--until-empty").status() == 0
    assert (house.row(task_id)["status"], house.row(task_id)["attempt_count"]) == ("SUCCESSFUL", 3)
