"""Whatever a task prints, from wherever, is in the log pipe when its envelope is written, and nowhere else."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

import pytest

from tests.executor.driver import ChildDriver

App = Callable[..., ChildDriver]

PRINTERS = """
    import ctypes, os, subprocess, sys
    libc = ctypes.CDLL(None)
    @task("python")
    def python(payload): print("from python", end="")
    @task("stderr")
    def stderr(payload): print("from stderr", file=sys.stderr, end="")
    @task("descriptor")
    def descriptor(payload): os.write(1, b"from descriptor")
    @task("c")
    def c(payload): libc.printf(b"from c")
    @task("puts")
    def puts(payload): libc.puts(b"from puts")
    @task("program")
    def program(payload): subprocess.run(["echo", "from program"])
    @task("system")
    def system(payload): os.system("echo from system")
    @task("faulthandler")
    def fault(payload):
        import faulthandler
        os.write(2, b"from faulthandler")
        faulthandler.dump_traceback()
    @task("log")
    def log(payload, ctx): ctx.log.info("from %s", "log")
    @task("surrogate")
    def surrogate(payload): print("from surrogate \\ud800")
    @task("forged")
    def forged(payload): print('{"v":1,"id":1,"claim_no":1,"success":true,"payload":"from forged"}')
    @task("quiet")
    def quiet(payload): pass
"""
KINDS = (
    "python", "stderr", "descriptor", "c", "puts", "program", "system", "faulthandler", "log", "surrogate", "forged",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_output_is_in_the_log_before_the_envelope_and_never_in_it(app: App, kind: str) -> None:
    child = app(PRINTERS)
    number = child.order(kind)
    envelope = child.answer()
    assert (envelope["id"], envelope["success"], "payload" in envelope) == (number, True, False)
    assert f"from {kind}".encode() in child.log.now()
    assert child.run("quiet")["success"]
    assert child.out.now() == b""


def test_a_task_is_answered_and_the_next_begins_only_when_its_output_was_read(app: App) -> None:
    child = app(PRINTERS)
    child.order("python")
    child.order("stderr")
    for number, said in ((1, b"from python"), (2, b"from stderr")):
        assert select.select([child.log.fd], [], [], 10)[0]
        assert child.out.now() == b""
        assert os.read(child.log.fd, 100) == said
        assert child.answer()["id"] == number


def test_a_log_that_nobody_reads_delays_the_next_task_for_a_bounded_time(app: App) -> None:
    child = app(PRINTERS)
    for _ in range(2):
        child.order("python")
    assert [child.answer()["id"], child.answer(seconds=10)["id"]] == [1, 2]


def test_lines_printed_before_a_crash_are_in_the_log(app: App) -> None:
    child = app("@task('crash')\ndef crash(payload):\n    print('last words')\n    __import__('os')._exit(4)\n")
    child.order("crash")
    assert child.process.wait(10) == 4
    assert child.log.rest() == b"last words\n"


def test_a_segfault_leaves_a_traceback_in_the_log(app: App) -> None:
    child = app("@task('segv')\ndef segv(payload):\n    __import__('ctypes').string_at(0)\n")
    child.order("segv")
    assert child.process.wait(10) == -11
    log = child.log.rest()
    assert b"Segmentation fault" in log
    assert b"in segv" in log


def test_a_task_that_reads_stdin_gets_end_of_file_and_not_the_next_order(app: App) -> None:
    child = app("@task('read')\ndef read(payload):\n    return __import__('sys').stdin.read()\n")
    orders = [child.order("read"), child.order("read")]
    assert [(each["id"], each["payload"]) for each in (child.answer(), child.answer())] == [(n, "") for n in orders]


FORKS = """
    import os, subprocess, sys
    @task("fork")
    def fork(payload):
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
        return "parent" if pid else "child"
    @task("exit")
    def exit(payload):
        if os.fork() == 0:
            sys.exit("in the fork")
        os.wait()
    @task("pool")
    def pool(payload):
        import multiprocessing
        with multiprocessing.get_context("fork").Pool(2) as pool:
            return pool.map(abs, [-1, -2, -3])
    @task("descriptors")
    def descriptors(payload):
        script = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
        return subprocess.run([sys.executable, "-c", script], capture_output=True, close_fds=False, text=True).stdout
"""


@pytest.mark.parametrize(("kind", "result"), [("fork", "parent"), ("exit", None), ("pool", [1, 2, 3])])
def test_a_fork_that_comes_back_from_the_task_neither_answers_nor_reads(app: App, kind: str, result: object) -> None:
    child = app(FORKS)
    orders = [child.order(kind), child.order(kind)]
    answers = [child.answer(), child.answer()]
    assert [(each["id"], each.get("payload")) for each in answers] == [(number, result) for number in orders]
    child.send(do="stop")
    assert child.process.wait(10) == 0
    assert child.out.rest() == b""


def test_programs_that_a_task_starts_dont_inherit_the_protocol(app: App) -> None:
    assert app(FORKS).run("descriptors")["payload"] == "[0, 1, 2, 3]\n"


def test_a_task_that_closes_stdout_harms_nobody(app: App) -> None:
    child = app(
        "import sys\n@task('close')\ndef close(payload):\n    sys.stdout.close()\n    sys.stderr = None\n"
        "@task('after')\ndef after(payload): return 1\n"
    )
    assert child.run("close")["success"]
    assert child.run("after")["payload"] == 1


def test_a_task_that_closes_the_protocol_ends_its_own_child_with_a_reason(app: App) -> None:
    child = app("import os\n@task('close')\ndef close(payload): os.closerange(3, 500)\n")
    child.order("close")
    assert child.process.wait(10) == 1
    assert child.out.rest() == b""
    assert b"Bad file descriptor" in child.log.rest()


@pytest.mark.parametrize("flush", ["None", "lambda self: 1 / 0", "lambda self: {}['x']"])
def test_a_task_that_replaces_its_output_by_something_odd_still_answers(app: App, flush: str) -> None:
    child = app(
        f"import sys\nclass Odd:\n    write = lambda self, text: 0\n    flush = {flush}\n"
        "@task('odd')\ndef odd(payload):\n    sys.stdout = Odd()\n    return 1\n"
        "@task('talks')\ndef talks(payload):\n    print('heard')\n"
    )
    assert child.run("odd")["payload"] == 1
    assert child.run("talks")["success"]
    assert b"heard" in child.log.now()
