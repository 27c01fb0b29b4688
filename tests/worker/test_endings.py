"""Exit statuses: 0 done, 2 wrong settings, 70 no children. (1 stands in test_drain.py and test_database_away.py.)"""

from __future__ import annotations

import pytest

from tests.worker.harness import House, wait_until

APP = "@task('ok')\ndef ok(payload): return 1\n"


def test_until_empty_ends_with_0_and_leaves_no_row_of_the_worker(house: House) -> None:
    house.app(APP)
    ids = house.enqueue_many("ok", [{}] * 50)
    worker = house.worker("--until-empty")
    assert worker.status() == 0
    assert {row["status"] for row in house.finals(ids)} == {"SUCCESSFUL"}
    assert house.one("select count(*) from queues.workers") == 0
    assert house.one("select count(*) from queues.sleeper") == 0
    assert worker.events("worker_stopped")[-1]["status"] == 0


def test_until_empty_with_nothing_to_do_ends_too(house: House) -> None:
    house.app(APP)
    assert house.worker("--until-empty").status() == 0


def test_a_worker_without_an_app_leaves_every_type_alone_but_the_built_in_ones(house: House) -> None:
    task_id = house.enqueue("ok", priority=9)
    function = house.function("greet", """begin return '{"success": true, "payload": "hello"}'; end""")
    built_in = house.enqueue("db_function", {"db_function": function})
    house.worker("--system-processes", "1").ready()
    assert house.final(built_in)["result_json"] == "hello"
    house.asleep()
    assert (house.row(task_id)["status"], house.row(task_id)["claim_no"]) == ("PENDING", 0)


def test_until_empty_ends_when_only_types_are_left_that_this_worker_doesnt_serve(house: House) -> None:
    house.app(APP)
    house.enqueue("somebody.elses")
    assert house.worker("--until-empty", "--leave-unknown").status(8) == 0


@pytest.mark.parametrize(
    ("flags", "environ", "said"),
    [
        (["--heartbeat", "9s", "--lease", "10s"], {}, "heartbeat"),
        (["--lease", "soon"], {}, "lease"),
        (["--processes", "0"], {}, "processes"),
        (["--app", "not a module"], {}, "app"),
        ([], {"REPROQ_QUEUE": "typo"}, "REPROQ_QUEUES"),
        ([], {"REPROQ_DATABASE_URL": ""}, "no database"),
        (["--database-url", "mysql://x/y"], {}, "postgresql"),
        (["--config", "/nowhere/reproq.toml"], {}, "/nowhere/reproq.toml"),
        (["--colour"], {}, "--colour"),
    ],
    ids=lambda value: "_".join(value)[:40] if isinstance(value, list) else None,
)
def test_a_bad_setting_is_refused_with_one_line_and_status_2(
    house: House, flags: list[str], environ: dict[str, str], said: str
) -> None:
    worker = house.worker(*flags, **environ)
    assert worker.status() == 2
    assert len(worker.log.splitlines()) == 1, worker.log
    assert said in worker.log


@pytest.mark.parametrize("wrong", ["password", "database", "login"])
def test_a_wrong_password_login_or_database_is_refused_with_status_2_and_no_secret(house: House, wrong: str) -> None:
    dsn = house.database.worker_dsn
    password = dsn.split(":")[2].split("@")[0]
    changed = {
        "password": dsn.replace(password, "wrong-canary"),
        "database": dsn.replace(house.database.name, "no_such_database"),
        "login": dsn.replace("reproq_worker", "nobody_of_that_name"),
    }[wrong]
    worker = house.worker(dsn=changed)
    assert worker.status() == 2
    assert password not in worker.log
    assert "canary" not in worker.log


def test_a_worker_whose_app_cant_be_imported_gives_up_with_70_and_burns_no_attempt(house: House) -> None:
    house.app("value = 1\nraise RuntimeError('broken ' + 'app')\n")
    ids = [house.enqueue("ok", max_attempts=1), house.enqueue("other")]
    worker = house.worker("--processes", "2", "--until-empty")
    assert worker.status(90) == 70
    assert worker.log.count("RuntimeError: broken app") == 1
    (line,) = worker.events("child_boot_failed")
    assert "app.py" in line["output"]
    assert worker.events("children_impossible")
    for task_id in ids:
        row = house.row(task_id)
        assert (row["status"], row["attempt_count"], row["claim_no"]) == ("PENDING", 0, 0)
        assert house.history(task_id) == []


def test_an_app_module_that_is_missing_is_refused_by_name(house: House) -> None:
    worker = house.worker(REPROQ_APP="no_such_module_anywhere")
    assert worker.status() == 2
    assert "no_such_module_anywhere" in worker.log


def test_an_app_that_can_be_imported_again_after_two_failures_is_served(house: House) -> None:
    house.app(
        "path = HERE + '/boots'\nopen(path, 'a').write('x')\nif len(open(path).read()) < 3: raise OSError('not yet')\n"
        + APP
    )
    task_id = house.enqueue("ok")
    worker = house.worker().ready()
    assert house.final(task_id)["attempt_count"] == 1
    assert len(worker.events("child_boot_failed")) == 1
    assert worker.stop() == 0


def test_children_that_fail_to_start_at_first_are_all_there_in_the_end(house: House) -> None:
    house.app(
        "n = len(os.listdir(HERE + '/boots'))\nopen(f'{HERE}/boots/{os.getpid()}', 'w').close()\n"
        "if n < 3: raise OSError('not yet')\n" + APP
    )
    (house.folder / "boots").mkdir()
    worker = house.worker("--processes", "3").ready()
    house.final(house.enqueue("ok"))
    wait_until(lambda: len(worker.children()) == 3, lambda: f"three children, not {worker.children()}")


def test_an_app_that_breaks_while_the_worker_runs_doesnt_end_it(house: House) -> None:
    """A new version is being copied over the old one: children that were ready before prove that it may work again."""
    house.app(APP + "@task('die', backoff_base=0.05)\ndef die(payload): os._exit(1)\n")
    worker = house.worker().ready()
    house.final(house.enqueue("ok"))
    good = (house.folder / "app.py").read_text()
    (house.folder / "app.py").write_text("import nothing_of_that_name\n")
    house.final(house.enqueue("die", max_attempts=1))
    worker.wait_event("child_boot_failed")
    task_id = house.enqueue("ok")
    (house.folder / "app.py").write_text(good)
    assert house.final(task_id)["attempt_count"] == 1
    assert worker.process.poll() is None


def test_a_missing_variable_that_the_worker_keeps_back_is_explained_in_the_boot_error(house: House) -> None:
    house.app("os.environ['DATABASE_URL']\n" + APP)
    worker = house.worker(DATABASE_URL=house.database.worker_dsn, REPROQ_DATABASE_URL="")
    line = worker.wait_event("child_boot_failed")
    assert "--child-env DATABASE_URL" in line["output"]
    assert worker.status(90) == 70


def test_a_worker_that_is_refused_starts_no_process(house: House) -> None:
    house.app(APP)
    worker = house.worker("--lease", "nonsense")
    assert worker.status() == 2
    wait_until(lambda: not worker.leftovers(), "no process")
