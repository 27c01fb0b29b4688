"""Any executable as a child: what a good one may rely on, and what a bad one can't harm."""

from __future__ import annotations

import json
import shutil
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.worker.harness import ROOT, House, wait_until

# A child that answers whatever its payload says, byte by byte.
RAW = """#!{python}
import json, os, sys, time
os.write(1, b'{{"v":1}}\\n')
for line in sys.stdin:
    order = json.loads(line)
    if order["do"] != "run":
        break
    how = order["payload"]
    good = {{"v": 1, "id": order["id"], "claim_no": order["claim_no"], "success": True}}
    if how.get("once") and order["attempt"] > 1:
        how = {{}}
    if "hex" in how:
        text = bytes.fromhex(how["hex"]).decode().replace("$ID", str(order["id"]))
        os.write(1, text.replace("$CLAIM", str(order["claim_no"])).encode("latin-1"))
    elif "size" in how:
        line = json.dumps({{**good, "payload": "x" * how["size"]}}).encode() + b"\\n"
        while line:
            line = line[os.write(1, line):]
    else:
        os.write(1, json.dumps({{**good, **how.get("change", {{}}), "payload": os.getpid()}}).encode() + b"\\n")
    if how.get("exit") is not None:
        os._exit(how["exit"])
"""


def exactly(text: str) -> dict[str, str]:
    """A payload that makes the child write this, also what jsonb wouldn't take."""
    return {"hex": text.encode().hex()}


GOOD = '{"v":1,"id":$ID,"claim_no":$CLAIM,"success":true}'

BAD: dict[str, dict[str, Any]] = {
    "not JSON": exactly("hello\n"),
    "JSON, but no object": exactly("[1,2]\n"),
    "two lines at once": exactly(f"{GOOD}\n{GOOD}\n"),
    "an empty line first": exactly(f"\n{GOOD}\n"),
    "something behind the object": exactly(GOOD + " and more\n"),
    "NaN": exactly(GOOD[:-1] + ',"payload":NaN}\n'),
    "NUL": exactly(GOOD[:-1] + ',"payload":"a\\u0000b"}\n'),
    "a raw NUL byte": exactly(GOOD[:-1] + ',"payload":"a\0b"}\n'),
    "a lone surrogate": exactly(GOOD[:-1] + ',"payload":"\\ud800"}\n'),
    "a lone surrogate beside a long number": exactly(GOOD[:-1] + ',"payload":["\\ud800",12345678901234567890]}\n'),
    "bytes that are not UTF-8": exactly(GOOD[:-1] + ',"payload":"\xff"}\n'),
    "a number of 1,200 digits": exactly(GOOD[:-1] + ',"payload":' + "9" * 1200 + "}\n"),
    "a number beyond every range": exactly(GOOD[:-1] + ',"payload":1e400000}\n'),
    "nested too deep": exactly(GOOD[:-1] + ',"payload":' + "[" * 70 + "]" * 70 + "}\n"),
    "wrong id": {"change": {"id": 999_999}},
    "wrong claim_no": {"change": {"claim_no": 999}},
    "id as text": exactly(GOOD.replace("$ID", '"$ID"') + "\n"),
    "wrong version": {"change": {"v": 2}},
    "a version that is none": {"change": {"v": True}},
    "id as a float": exactly(GOOD.replace("$ID", "$ID.0") + "\n"),
    "no success": {"change": {"success": None}},
    "success and an error": {"change": {"error": "but"}},
    "failure and no reason": {"change": {"success": False}},
    "failure and two reasons": {"change": {"success": False, "error": "a", "validation_failure_message": "b"}},
    "a delay that is none": {"change": {"success": False, "error": "a", "retry_in_s": -1}},
    "too long": {"size": 1_100_000},
}


@pytest.fixture
def raw(house: House) -> str:
    """A worker's --config with the child above, and an app of plain Python beside it."""
    path = house.folder / "raw child"
    path.write_text(RAW.format(python=sys.executable))
    path.chmod(0o755)
    house.app("@task('plain')\ndef plain(payload): return os.getpid()\n")
    command = json.dumps([str(path)])
    return house.config(f'max_envelope = "1MiB"\n[[command]]\nprefix = "raw."\ncommand = {command}\nprocesses = 2\n')


def test_every_bad_envelope_fails_its_own_attempt_and_nothing_else(house: House, raw: str) -> None:
    bad = {name: house.enqueue("raw.x", {**how, "once": True}, max_attempts=2) for name, how in BAD.items()}
    good = house.enqueue_many("raw.x", [{}] * 40)
    plain = house.enqueue_many("plain", [{}] * 20)
    worker = house.worker("--config", raw).ready()
    assert {row["attempt_count"] for row in house.finals(good + plain)} == {1}
    wrong = {}
    for name, task_id in bad.items():
        row, history = house.final(task_id), house.history(task_id)
        kinds = [event["detail"]["kind"] for event in history]
        if (row["status"], row["attempt_count"], kinds) != ("SUCCESSFUL", 2, ["bad_envelope"]):
            wrong[name] = (row["status"], row["attempt_count"], kinds, row["last_error"])
    assert not wrong
    pids = {row["result_json"] for row in house.finals(plain)}
    assert len(pids) == 1  # its child was never replaced
    assert len(worker.events("bad_envelope")) == len(BAD)
    wait_until(lambda: len(worker.children()) == 3, worker.children)


HASTY = """#!{python}
import os, re, sys
os.write(1, b'{{"v":1}}\\n')
first = not os.path.exists({mark!r})
while line := os.read(0, 200) if first else sys.stdin.buffer.readline():
    open({mark!r}, "w").close()
    if b'"do":"run"' not in line:
        break
    task, claim = re.search(rb'"id":(\\d+),"claim_no":(\\d+)', line).groups()
    os.write(1, b'{{"v":1,"id":%s,"claim_no":%s,"success":true}}\\n' % (task, claim))
"""


def test_a_child_that_answers_before_it_has_read_its_task_is_replaced(house: House) -> None:
    path = house.folder / "hasty"
    path.write_text(HASTY.format(python=sys.executable, mark=str(house.mark("once"))))
    path.chmod(0o755)
    ids = [house.enqueue("sh.x", {"text": "x" * 900_000}, priority=1), house.enqueue("sh.x")]
    worker = house.worker("--config", house.config(f'[[command]]\nprefix = "sh."\ncommand = ["{path}"]\n')).ready()
    assert [row["attempt_count"] for row in house.finals(ids)] == [2, 1]
    assert "before it had read" in worker.events("bad_envelope")[0]["message"]


def test_half_a_line_and_an_exit_is_the_exits_failure(house: House, raw: str) -> None:
    how = {**exactly(GOOD[:20]), "exit": 4, "once": True}
    task_id = house.enqueue("raw.x", how)
    house.worker("--config", raw).ready()
    row = house.final(task_id)
    assert (row["status"], row["attempt_count"]) == ("SUCCESSFUL", 2)
    detail = house.detail(task_id, "retried")
    assert detail["kind"] in ("exited", "bad_envelope")
    assert detail["exit_code"] == 4


def test_a_whole_answer_and_an_exit_is_a_success(house: House, raw: str) -> None:
    ids = house.enqueue_many("raw.x", [{**exactly(GOOD + "\n"), "exit": 0}] * 4)
    worker = house.worker("--config", raw).ready()
    assert {(row["status"], row["attempt_count"]) for row in house.finals(ids)} == {("SUCCESSFUL", 1)}
    assert not worker.events("bad_envelope")


def test_a_large_number_and_a_deep_but_allowed_value_pass_unchanged(house: House, raw: str) -> None:
    digits = "9" * 900
    value = "[" * 60 + digits + "]" * 60
    task_id = house.enqueue("raw.x", exactly(GOOD[:-1] + f',"payload":{value}}}\n'), max_attempts=1)
    house.worker("--config", raw).ready()
    assert house.final(task_id)["status"] == "SUCCESSFUL"
    assert house.one("select result_json::text from queues.task_runs where id = %s", task_id) == value


def test_unknown_keys_are_ignored_and_finished_is_not_believed(house: House, raw: str) -> None:
    task_id = house.enqueue("raw.x", {"change": {"finished": True, "news": [1]}})
    house.worker("--config", raw).ready()
    row = house.final(task_id)
    assert (row["status"], row["attempt_count"]) == ("SUCCESSFUL", 1)
    assert isinstance(row["result_json"], int)


def command(house: House, script: str, more: str = "") -> str:
    path = house.folder / "child.sh"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return house.config(f'[[command]]\nprefix = "sh."\ncommand = ["{path}"]\n{more}')


def test_a_child_that_speaks_without_being_asked_is_replaced(house: House) -> None:
    script = f"""
echo '{{"v":1}}'
if ! test -e {house.mark("spoke")}; then
    touch {house.mark("spoke")}
    echo '{{"v":1,"id":1,"claim_no":1,"success":true}}'
fi
while read -r line; do
    case $line in *'"do":"stop"'*) exit 0;; esac
    id=${{line#*'"id":'}}; claim=${{line#*'"claim_no":'}}
    echo "{{\\"v\\":1,\\"id\\":${{id%%,*}},\\"claim_no\\":${{claim%%,*}},\\"success\\":true,\\"payload\\":$$}}"
done
"""
    worker = house.worker("--config", command(house, script)).ready()
    worker.wait_event("bad_envelope")
    task_id = house.enqueue("sh.x")
    assert house.final(task_id)["attempt_count"] == 1


def test_a_child_whose_first_line_is_nonsense_ends_the_worker_with_70(house: House) -> None:
    worker = house.worker("--config", command(house, "echo hello; sleep 60\n"))
    assert worker.status(90) == 70
    assert len(worker.events("child_boot_failed")) == 1


def test_a_child_that_is_ready_and_then_exits_again_and_again_is_started_ever_more_slowly(house: House) -> None:
    boots = house.mark("boots")
    worker = house.worker("--config", command(house, f"echo x >> {boots}; echo '{{\"v\":1}}'; exit 3\n"))
    worker.wait_event("child_died", count=4)
    first, fourth = (worker.events("child_died")[i]["ts"] for i in (0, 3))
    assert fourth > first
    passed = datetime.fromisoformat(fourth) - datetime.fromisoformat(first)
    assert passed.total_seconds() > 0.5


def test_a_command_that_is_not_there_is_refused_at_start(house: House) -> None:
    config = house.config('[[command]]\nprefix = "x."\ncommand = ["/no/such/program"]\n')
    worker = house.worker("--config", config)
    assert worker.status() == 2
    assert "/no/such/program" in worker.log


def test_a_command_runs_in_its_own_folder_with_the_workers_environment_and_no_payload_in_sight(house: House) -> None:
    (house.folder / "own").mkdir()
    script = """
echo '{"v":1}'
read -r line
id=${line#*'"id":'}; claim=${line#*'"claim_no":'}
seen=$(tr '\\0' ' ' < /proc/$$/cmdline; tr '\\0' ' ' < /proc/$$/environ)
case $seen in *canary*) leak=true;; *) leak=false;; esac
seen="[\\"$(pwd)\\",\\"$USER_SETTING\\",$leak]"
echo "{\\"v\\":1,\\"id\\":${id%%,*},\\"claim_no\\":${claim%%,*},\\"success\\":true,\\"payload\\":$seen}"
"""
    config = command(house, script, 'cwd = "own"\n')
    task_id = house.enqueue("sh.x", {"secret": "canary"})
    house.worker("--config", config, USER_SETTING="kept").ready()
    assert house.final(task_id)["result_json"] == [str(house.folder / "own"), "kept", False]


def test_a_contained_command_leaves_no_process_of_a_task_behind(house: House) -> None:
    script = f"""
echo '{{"v":1}}'
while read -r line; do
    case $line in *'"do":"stop"'*) exit 0;; esac
    setsid sleep 300 </dev/null >/dev/null 2>&1 &
    echo $! >> {house.mark("left")}
    id=${{line#*'"id":'}}; claim=${{line#*'"claim_no":'}}
    echo "{{\\"v\\":1,\\"id\\":${{id%%,*}},\\"claim_no\\":${{claim%%,*}},\\"success\\":true,\\"payload\\":$$}}"
done
"""
    ids = house.enqueue_many("sh.x", [{}] * 3)
    worker = house.worker("--config", command(house, script, "contain = true\n")).ready()
    rows = house.finals(ids)
    assert len({row["result_json"] for row in rows}) == 1
    assert len(house.wait_mark("left").split()) == 3
    assert [p for p in worker.family() if "sleep 300" in p.command] == []


EXAMPLES = {"perl": "words.pl", "node": "words.mjs"}


@pytest.mark.parametrize("language", list(EXAMPLES))
def test_the_example_in_another_language_works(house: House, language: str) -> None:
    if shutil.which(language) is None:
        pytest.skip(f"{language} isn't installed here")
    folder = ROOT / "examples" / "other_languages"
    assert (folder / EXAMPLES[language]).exists()
    good = house.enqueue(f"{language}.words", {"text": "Grüße an  alle ✓"})
    bad = house.enqueue(f"{language}.words", {"text": 7})
    raises = house.enqueue(f"{language}.words", {"text": "x", "fail": True}, max_attempts=1)
    unknown = house.enqueue(f"{language}.nothing")
    worker = house.worker("--config", str(folder / "reproq.toml"), "--type-prefix", f"{language}.", "--until-empty")
    assert worker.status() == 0, worker.log
    assert house.row(good)["result_json"] == {"words": ["Grüße", "an", "alle", "✓"], "count": 4, "attempt": 1}
    assert (house.row(bad)["failure_kind"], house.row(bad)["attempt_count"]) == ("validation", 1)
    assert house.row(raises)["last_error"] == "asked to fail"
    assert "asked to fail" in house.detail(raises, "failed")["output"]
    assert house.row(unknown)["status"] == "FAILED"
    assert house.row(unknown)["attempt_count"] == 1
    assert Path(folder / "README.md").exists()


LITTERING = """#!{python}
import json, os, sys, time
os.write(1, b'{{"v":1}}\\n')
for line in sys.stdin:
    order = json.loads(line)
    if order["do"] != "run":
        break
    good = {{"v": 1, "id": order["id"], "claim_no": order["claim_no"], "success": True, "payload": os.getpid()}}
    good = json.dumps(good)
    late = order["payload"].get("late")
    half = order["payload"].get("half", "")
    os.write(1, (good + "\\n" + ("" if late else half)).encode())
    if late:
        time.sleep(0.05)
        os.write(1, half.encode())
"""


@pytest.mark.parametrize("late", [False, True], ids=["at once", "later"])
def test_half_a_line_behind_an_answer_costs_its_child_and_no_other_task(house: House, late: bool) -> None:
    path = house.folder / "litterer"
    path.write_text(LITTERING.format(python=sys.executable))
    path.chmod(0o755)
    worker = house.worker("--config", house.config(f'[[command]]\nprefix = "sh."\ncommand = ["{path}"]\n')).ready()
    first = house.final(house.enqueue("sh.x", {"half": "x", "late": late}, max_attempts=1))
    worker.wait_event("bad_envelope")
    after = house.finals(house.enqueue_many("sh.x", [{}] * 5, max_attempts=1))
    assert {row["status"] for row in [first, *after]} == {"SUCCESSFUL"}
    assert first["result_json"] not in {row["result_json"] for row in after}


def talker(house: House, script: str) -> str:
    """A command in Python, in place of the file that the fixture has made."""
    path = house.folder / "talker"
    path.write_text(script.format(python=sys.executable))
    path.chmod(0o755)
    return house.config(f'[[command]]\nprefix = "raw."\ncommand = ["{path}"]\n')


@pytest.mark.parametrize("size", [1, 200_000], ids=["short lines", "long lines"])
def test_a_command_that_ends_after_each_task_costs_the_next_one_nothing(house: House, size: int) -> None:
    ids = house.enqueue_many("raw.x", [{"text": "x" * size}] * 8, max_attempts=1)
    house.worker("--config", talker(house, RAW + "    os._exit(0)\n")).ready()
    assert {row["status"] for row in house.finals(ids)} == {"SUCCESSFUL"}


@pytest.mark.parametrize("size", [1, 200_000], ids=["short lines", "long lines"])
def test_a_second_answer_is_no_fault_of_the_task_behind(house: House, size: int) -> None:
    again = "    import select\n    select.select([0], [], [])\n    os.write(1, json.dumps(good).encode() + b'\\n')\n"
    ids = house.enqueue_many("raw.x", [{"text": "x" * size}] * 6, max_attempts=1)
    house.worker("--config", talker(house, RAW + again)).ready()
    assert {(row["status"], row["attempt_count"]) for row in house.finals(ids)} == {("SUCCESSFUL", 1)}


def test_a_command_that_closes_its_output_in_a_task_is_replaced(house: House) -> None:
    closes = '    if how.get("closes"):\n        os.close(1)\n        time.sleep(1000)\n'
    mute = house.enqueue("raw.x", {"closes": True}, max_attempts=1)
    good = house.enqueue("raw.x")
    script = RAW.replace('    if how.get("once")', closes + '    if how.get("once")')
    house.worker("--config", talker(house, script)).ready()
    assert "closed its standard output" in house.final(mute)["last_error"]
    assert house.final(good)["status"] == "SUCCESSFUL"


@pytest.mark.parametrize("size", [1, 200_000], ids=["short lines", "long lines"])
def test_a_command_that_never_reads_its_task_makes_it_time_out(house: House, size: int) -> None:
    script = "#!{python}\nimport os, time\nos.write(1, b'{{\"v\":1}}\\n')\ntime.sleep(1000)\n"
    ids = house.enqueue_many("raw.x", [{"text": "x" * size}] * 2, max_attempts=1, timeout=timedelta(seconds=0.3))
    house.worker("--config", talker(house, script)).ready()
    assert {(row["status"], row["failure_kind"]) for row in house.finals(ids)} == {("FAILED", "timed_out")}
