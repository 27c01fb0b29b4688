"""What comes as data stays data: nothing unpickles, evaluates or imports what a task says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executor.driver import ChildDriver

ROOT = Path(__file__).parents[1]
FILES = sorted([*ROOT.glob("reproq/**/*.py"), *ROOT.glob("cmd/*.py")])
FORBIDDEN_MODULES = {
    "pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle",
    "yaml", "runpy", "code"}  # fmt: skip
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
# Who may import by name, and whose name that is.
IMPORTERS = {
    "reproq/__init__.py": "the package's own door",
    "reproq/executor/child.py": "the modules of --app, from the command line",
    "reproq/cli/commands.py": "the commands, from a table",
}

EVALUATORS = {"reproq/tasks.py": "annotations, from the app's own source"}


def sins(path: Path) -> Iterator[str]:
    where = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        for name in names:
            if name.partition(".")[0] in FORBIDDEN_MODULES:
                yield f"{where} imports {name}"
        if isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            method = isinstance(node.func, ast.Attribute)
            if called in FORBIDDEN_CALLS and not (method and called == "compile") and where not in EVALUATORS:
                yield f"{where}:{node.lineno} calls {called}"
            if called == "import_module" and where not in IMPORTERS:
                yield f"{where}:{node.lineno} imports by name"


def test_nothing_unpickles_evaluates_or_imports_by_name() -> None:
    assert [sin for path in FILES for sin in sins(path)] == []


def test_the_check_sees_each_of_them(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    for text in (
        "import pickle",
        "from marshal import loads",
        "eval('1')",
        "exec(x)",
        "__import__(x)",
        "f.import_module(x)",
    ):
        file.write_text(text)
        assert len(list(sins(file))) == 1, text


TYPES = [
    "os.system", "builtins.eval", "app.not_a_task", "__main__.main", "antigravity", "app", "reproq.tasks.registry",
    "subprocess.Popen"]  # fmt: skip


@pytest.mark.parametrize("task_type", TYPES)
def test_a_task_type_names_no_code(tmp_path: Path, task_type: str) -> None:
    source = "import sys\nfrom reproq import task\ndef not_a_task(payload):\n    return 'ran'\n"
    source += "@task('loaded')\ndef loaded(payload):\n    return sorted(sys.modules)\n"
    (tmp_path / "app.py").write_text(source)
    child = ChildDriver(tmp_path, "app")
    try:
        before = child.run("loaded")["payload"]
        answer = child.run(task_type, {"command": "id"})
        assert answer["success"] is False
        assert "no handler" in str(answer).lower() or "no_handler" in str(answer)
        after = set(child.run("loaded")["payload"])
        assert task_type.partition(".")[0] not in after - set(before)
    finally:
        child.close()
