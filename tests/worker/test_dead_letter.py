"""A route for dead letters and the audit of everything, with a real worker."""

from __future__ import annotations

from tests.worker.harness import House, wait_until

APP = """
@task("pay", max_attempts=2, backoff_base=0.05, dead_letter_type="morgue")
def pay(payload, ctx: Context):
    print("paying", payload["invoice"])
    if ctx.attempt == 2:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    raise ValueError("no such invoice")

@task("morgue")
def morgue(payload):
    return payload
"""


def test_what_has_failed_for_good_is_told_to_the_type_that_its_code_names(house: House) -> None:
    house.app(APP)
    house.database.execute("select queues.audit_queue('default', 'all')")
    task_id = house.enqueue("pay", {"invoice": 7})
    house.worker().ready()
    assert house.final(task_id)["status"] == "FAILED"
    sql = "select id from queues.task_runs where dead_letter_of = %s and status = 'SUCCESSFUL'"
    ((letter,),) = wait_until(lambda: house.database.execute(sql, task_id), "the letter")
    told = house.row(letter)["result_json"]
    assert (told["task_id"], told["failure_kind"], told["payload"]) == (task_id, "killed", {"invoice": 7})
    events = [event["event"] for event in house.history(task_id)]
    assert events == ["created", "claimed", "started", "retried", "claimed", "started", "failed", "routed"]
    assert [event["event"] for event in house.history(letter)] == ["created", "claimed", "started", "succeeded"]
