"""The documents say what is so: snippets compile and run, names exist, tables equal the code, links lead somewhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from reproq.cli.commands import reproq
from reproq.cli.options import _HELP, WORKER
from reproq.config.options import BY_FIELD, is_known
from reproq.db.doctor.health import HEALTH
from reproq.executor.guard_client import child_command
from reproq.models.envelope import read_envelope
from reproq.models.states import FailureKind
from tests.conftest import Database

ROOT = Path(__file__).parents[1]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *ROOT.glob("docs/**/*.md")])
}
MIGRATIONS = "\n".join(path.read_text("utf-8") for path in sorted(ROOT.glob("migrations/**/*.sql")))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)
EACH_PAGE = pytest.mark.parametrize("page", PAGES)


def blocks(page: str, language: str) -> list[str]:
    return [text for name, text in FENCE.findall(PAGES[page]) if name == language]


def prose(page: str) -> str:
    return FENCE.sub("", PAGES[page])


def marked(page: str, begin: str) -> str:
    """What stands between a comment that begins so and the next `end`."""
    return PAGES[page].split(f"<!-- {begin}")[1].split("-->", 1)[1].split("<!-- end -->")[0]


def first_cells(table: str) -> list[list[str]]:
    """The words in code of each row's first cell, without the heading."""
    rows = re.split(r"^\|---.*\n", table, maxsplit=1, flags=re.M)[1].splitlines()
    return [re.findall(r"`([^`]+)`", row.split("|")[1]) for row in rows if row.startswith("| `")]


def anchors(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", PAGES[page]), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@EACH_PAGE
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        assert path.exists(), target
        if anchor:
            assert anchor in anchors(path.resolve().relative_to(ROOT).as_posix()), target


@EACH_PAGE
def test_every_python_snippet_compiles_and_every_document_parses(page: str) -> None:
    for text in blocks(page, "python"):
        compile(text, page, "exec")
    for text in blocks(page, "toml"):
        tomllib.loads(text)
    for text in blocks(page, "json"):
        assert all(json.loads(line) for line in text.splitlines())


@EACH_PAGE
def test_every_database_object_that_is_named_exists(page: str) -> None:
    for schema, name in re.findall(r"\b(queues|internal)\.([a-z_]+)\b", PAGES[page]):
        made = re.search(rf"(table|view|type|domain|function) {schema}\.{name}\b", MIGRATIONS)
        assert made, f"{schema}.{name}"


def commands(group: click.Group) -> Iterator[click.Command]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield command
        if isinstance(command, click.Group):
            yield from commands(command)


FLAGS = {"--help"} | {
    flag
    for command in commands(reproq)
    for parameter in command.params
    for flag in (*parameter.opts, *parameter.secondary_opts)
    if flag[:2] == "--"
}
OTHERS_FLAGS = {"--version"}
OTHERS_FLAGS |= {"--now", "--property", "--value", "--no-pager", "--since", "--signal", "--kill-who"}  # of systemd
OTHERS_FLAGS |= {"--set", "--command", "--format", "--file", "--owner", "--exit-on-error", "--dbname"}  # of PostgreSQL
OTHERS_FLAGS |= {"--quiet", "--tags"}


@EACH_PAGE
def test_every_flag_and_variable_that_is_named_exists(page: str) -> None:
    text = PAGES[page]
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"<!--|-->", "", text)))
    assert flags - FLAGS - OTHERS_FLAGS == set()
    variables = set(re.findall(r"\b(?:REPROQ|WORKER|POLL)_[A-Z_]*[A-Z]\b", text))
    assert {name for name in variables if not is_known(name)} - {"WORKER_TEST_RUN"} == set()


def test_the_tables_of_settings_are_drawn_from_the_code() -> None:
    code = "import json, draw_settings as d; print(json.dumps({path.name: page for path, page in d.pages().items()}))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "docs", capture_output=True, text=True, check=True, timeout=60
    )
    for name, page in json.loads(done.stdout).items():
        assert page == PAGES[f"docs/{name}"], "run: python docs/draw_settings.py"
    assert set(WORKER) == set(BY_FIELD) == set(_HELP)


def test_the_table_of_failure_kinds_is_complete() -> None:
    rows = first_cells(marked("docs/tasks.md", "failure kinds"))
    assert [row[0] for row in rows] == [kind.value for kind in FailureKind]


def test_the_table_of_sqlstates_is_complete() -> None:
    rows = first_cells(marked("docs/enqueue.md", "sqlstates"))
    raised = set(re.findall(r"errcode = '(RQ\d{3})'", MIGRATIONS))
    assert {code for row in rows for code in row if code.startswith("RQ")} == raised


def test_the_table_of_arguments_is_that_of_the_function(database: Database) -> None:
    ((names,),) = database.execute("select proargnames from pg_proc where oid = 'queues.enqueue'::regproc")
    assert [row[0] for row in first_cells(marked("docs/enqueue.md", "arguments"))] == names


def test_every_limit_in_the_database_is_described(database: Database) -> None:
    columns = database.execute(
        "select attname from pg_attribute where attrelid = 'queues.settings'::regclass and attnum > 0"
        " and attname <> 'only_row' order by attnum"
    )
    table = PAGES["docs/configuration.md"].split("## Limits in the database")[1]
    assert [row[0] for row in first_cells(table)] == [name for (name,) in columns]


def test_every_test_that_is_named_exists() -> None:
    everything = "\n".join(path.read_text("utf-8") for path in ROOT.glob("tests/**/*.py"))
    named = set(re.findall(r"`(test_\w+)`", PAGES["docs/guarantees.md"]))
    assert len(named) > 20
    assert {name for name in named if f"def {name}(" not in everything} == set()


def test_decisions_are_numbered_without_a_gap() -> None:
    names = sorted(path.name for path in (ROOT / "docs/decisions").iterdir())
    assert [name[:4] for name in names] == [f"{number:03}-" for number in range(1, len(names) + 1)]
    for name in names:
        heading = (ROOT / "docs/decisions" / name).read_text("utf-8").splitlines()[0]
        assert heading.startswith(f"# {name[:3]} "), name


def test_the_tasks_of_the_guide_are_tasks_and_pass_the_tests_of_the_guide(tmp_path: Path) -> None:
    source = "\n\n".join(blocks("docs/tasks.md", "python"))
    (tmp_path / "guide.py").write_text(
        source + "\n\n[test() for name, test in list(globals().items()) if name[:5] == 'test_']\n"
    )
    done = subprocess.run(
        child_command(["guide"]), cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ready = json.loads(done.stdout)
    assert ready["types"]["billing.invoice_charge.v1"] == {"max_attempts": 5, "timeout": 30.0}


@pytest.mark.parametrize("page", ["README.md", "docs/enqueue.md"])
def test_the_python_of_the_guides_enqueues(page: str, database: Database, tmp_path: Path) -> None:
    """Each snippet in a process of its own, but for those of libraries that aren't here or wait for a worker."""
    for number, text in enumerate(blocks(page, "python")):
        if re.search(r"django|sqlalchemy|\.result\(|@task", text):
            continue
        done = subprocess.run(
            [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
            env={"PYTHONPATH": str(ROOT), "REPROQ_DATABASE_URL": database.app_dsn},
        )  # fmt: skip
        assert done.returncode == 0, f"{page}, snippet {number}: {done.stderr}"
    assert database.execute("select count(*) > 0 from queues.task_runs")[0][0]


@pytest.mark.parametrize("page", ["README.md", "docs/enqueue.md", "docs/tasks.md", "docs/other-languages.md"])
def test_the_sql_of_the_guides_runs_in_psql(page: str, database: Database, tmp_path: Path) -> None:
    session = tmp_path / "session.sql"
    session.write_text("\n".join(blocks(page, "sql")))
    psql = database.server.installed.program("psql")
    if not Path(psql).exists():
        pytest.skip("this PostgreSQL came without psql")
    done = subprocess.run(
        [psql, "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", str(session), database.dsn],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if page == "docs/other-languages.md":
        assert [line for line in done.stdout.splitlines() if line.isalpha()] == ["kept", "done", "done"]
        states = database.execute("select status::text from queues.task_runs order by id")
        assert states == [("SUCCESSFUL",), ("RETRYING",)]


def test_the_worker_in_sh_empties_its_queue(database: Database, tmp_path: Path) -> None:
    psql = Path(database.server.installed.program("psql"))
    if not psql.exists():
        pytest.skip("this PostgreSQL came without psql")
    for month in ("2031-01", "it's \t2031"):
        database.execute(
            "select queues.enqueue('legacy.report', jsonb_build_object('month', %s::text), queue_name => 'legacy')",
            month,
        )
    script = next(text for text in blocks("docs/other-languages.md", "sh") if text.startswith("#!"))
    environ = {"PATH": f"{psql.parent}:/usr/bin:/bin", "REPROQ_DATABASE_URL": database.worker_dsn}
    done = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout.split()) == (0, ["done", "done"]), done.stderr
    assert database.execute("select distinct status::text from queues.task_runs") == [("SUCCESSFUL",)]


ORDER = {"v": 1, "do": "run", "claim_no": 2, "worker_id": "host/1", "queue_name": "default", "attempt": 1,
         "max_attempts": 3, "deadline_s": None, "idempotency_key": "task-7"}  # fmt: skip
TALKS: dict[str, list[tuple[str, dict[str, object], dict[str, object]]]] = {
    "perl": [
        ("media.thumbnail", {"file": "a.png"}, {"success": True, "payload": {"thumbnail": "small-a.png"}}),
        ("media.thumbnail", {}, {"success": False, "kind": "raised", "error": "no file in the payload\n"}),
    ],
    "js": [
        ("text.count", {"text": "to be or not"}, {"success": True, "payload": {"words": 4}}),
        ("text.count", {"text": 7}, {"success": False, "kind": "validation", "error": "text: a string is needed"}),
        ("text.other", {}, {"success": False, "kind": "raised", "error": "no such type: text.other", "final": True}),
    ],
}


@pytest.mark.parametrize("language", list(TALKS))
def test_the_children_in_other_languages_speak_the_wire(language: str, tmp_path: Path) -> None:
    program = {"perl": "perl", "js": "node"}[language]
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here")
    (source,) = blocks("docs/wire.md", language)
    (tmp_path / "child").write_text(source)
    with subprocess.Popen(
        [program, "child"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        assert child.stdin and child.stdout
        assert json.loads(child.stdout.readline())["v"] == 1
        for number, (task_type, payload, expected) in enumerate(TALKS[language], 7):
            order = ORDER | {"id": number, "task_type": task_type, "payload": payload, "a key of later": [1]}
            child.stdin.write(json.dumps(order).encode() + b"\n")
            child.stdin.flush()
            outcome = read_envelope(child.stdout.readline(), number, 2)
            assert outcome == {"id": number, "claim_no": 2, **expected}
        child.stdin.write(b'{"v":1,"do":"cancel","id":6,"claim_no":1}\n{"v":1,"do":"stop"}\n')
        child.stdin.flush()
        assert child.wait(20) == 0


def test_the_envelopes_of_the_wire_are_envelopes() -> None:
    section = PAGES["docs/wire.md"].split("## Envelopes")[1]
    lines = FENCE.search(section)[2].splitlines()  # type: ignore[index]
    outcomes = [read_envelope(line.encode(), 7, 1) for line in lines]
    assert [outcome.get("kind", outcome["success"] or "snoozed") for outcome in outcomes] == [
        True, "raised", "raised", "validation", "snoozed",
    ]  # fmt: skip


def test_the_page_about_doctor_lists_every_rule() -> None:
    rules = [name for row in first_cells(marked("docs/doctor.md", "rules")) for name in row]
    assert rules == ["settings.worker", *(rule.name for rule in HEALTH)]


def test_the_page_about_the_command_line_lists_every_command() -> None:
    named = set(re.findall(r"^\|[^|]+\| `reproq ([a-z-]+)` \|$", PAGES["docs/cli.md"], re.M))
    assert named == set(reproq.list_commands(click.Context(reproq)))
