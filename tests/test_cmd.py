"""`cmd` is our package and the standard library's module at once."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def python(*arguments: str, cwd: Path = ROOT, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, input=given, capture_output=True, text=True, check=False)


def test_the_worker_starts_from_a_checkout() -> None:
    done = python("-m", "cmd.worker", "--help")
    assert (done.returncode, "--database-url" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import cmd; assert issubclass(type('C', (cmd.Cmd,), {}), cmd.Cmd) and cmd.PROMPT == '(Cmd) '",
        "from cmd import Cmd, IDENTCHARS",
        "from cmd import *; Cmd",
        "import pdb, doctest; assert issubclass(pdb.Pdb, __import__('cmd').Cmd)",
        "import cmd; assert cmd.Cmd is cmd.Cmd and cmd.Cmd.__module__ == 'cmd'",
        "import cmd, cmd.worker; cmd.Cmd",
        "import cmd\ntry: cmd.nothing\nexcept AttributeError: pass\nelse: raise SystemExit(1)",
    ],
)
def test_the_standard_modules_names_are_served(code: str) -> None:
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


def test_a_debugger_runs_in_the_checkout(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("x = 41\nprint(x + 1)\n")
    done = python("-m", "pdb", "-c", "continue", str(script), given="q\n")
    assert "42" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments", [["-m", "pytest"], ["-P", "-m", "pytest"], ["-m", "pytest", "-p", "no:xdist"], ["-m", "pytest", "-n1"]]
)
def test_pytest_finds_the_worker_however_it_is_started(arguments: list[str], tmp_path: Path) -> None:
    test = ROOT / "tests/test_cmd.py"
    chosen = f"{test}::test_both_are_there_at_once"
    done = python(*arguments, "-q", "-o", f"cache_dir={tmp_path}", chosen)
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_pytest_finds_the_worker_from_a_subfolder(tmp_path: Path) -> None:
    chosen = "test_cmd.py::test_both_are_there_at_once"
    done = python("-m", "pytest", "-q", "-o", f"cache_dir={tmp_path}", chosen, cwd=ROOT / "tests")
    assert done.returncode == 0, done.stdout + done.stderr


def test_both_are_there_at_once() -> None:
    import cmd
    import cmd.worker
    import pdb

    assert getattr(cmd, "Cmd") in pdb.Pdb.__mro__  # noqa: B009 - for mypy `cmd` is our package alone
    assert callable(getattr(cmd.worker, "main"))  # noqa: B009
