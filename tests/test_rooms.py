"""The rooms of the house: imports go one way only, and what only one room may do stays there."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Each room may import the rooms below it (a higher number), never one beside or above.
DEPTH = {
    "cmd": 0,
    "reproq.__main__": 0,
    "reproq.cli": 1,
    "reproq.bench": 2,
    "reproq.runner": 2,
    "reproq.web": 2,
    "reproq.outbox": 2,
    "reproq.client": 3,
    "reproq.queue": 4,
    "reproq.executor": 4,
    "reproq.channels": 5,
    "reproq.db": 5,
    "reproq.config": 6,
    "reproq.log": 6,
    "reproq.metrics": 7,
    "reproq.signals": 7,
    "reproq.notify": 7,
    "reproq.tasks": 7,
    "reproq.tickets": 7,
    "reproq.models": 8,
}
# The package's door loads its names from the rooms when they are first asked for.
DOOR = "reproq"
FILES = sorted([*ROOT.glob("reproq/**/*.py"), *ROOT.glob("cmd/*.py")])


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str | None:
    """Return the room a module of ours lies in; None: it isn't ours, or a plain fact that the door itself holds."""
    parts = module.split(".")
    if module == "reproq.__version__":
        return None
    if parts[0] == "cmd":
        return "cmd"
    return ".".join(parts[:2]) if parts[0] == "reproq" else None


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Give line and full name of everything of ours that a file imports, wherever in the file that is."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, [base, node.module]))
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)


def forbidden(path: Path) -> list[str]:
    module = module_of(path)
    own = room_of(module)
    if own in (None, DOOR):
        return []
    assert own in DEPTH, f"{path.relative_to(ROOT)} lies in a room that DEPTH doesn't know: {own}"
    found = []
    for line, name in imports_of(path):
        room = room_of(name)
        if room not in (None, own) and DEPTH.get(room or "", -1) <= DEPTH[own or ""]:
            found.append(f"{path.relative_to(ROOT)}:{line} imports {name}: {own} may not import {room}")
    return found


def test_imports_go_one_way_only() -> None:
    assert [line for path in FILES for line in forbidden(path)] == []


def test_the_room_test_sees_an_import_that_goes_the_wrong_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    file = tmp_path / "reproq/db/wrong.py"
    file.parent.mkdir(parents=True)
    for text in (
        "def f():\n    from reproq.queue import claim",
        "import reproq.cli.worker",
        "from ..executor import guard",
    ):
        file.write_text(text)
        assert len(forbidden(file)) == 1, text
    file.write_text("import os\nfrom reproq.log import setup\nfrom . import connect\nfrom reproq.models import task")
    assert forbidden(file) == []


def loaded_by(module: str) -> set[str]:
    code = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["reproq", "reproq.tasks", "reproq.executor.child", "reproq.executor.guard"])
def test_what_a_child_or_guard_loads_holds_none_of_the_slow_libraries(module: str) -> None:
    slow = {"psycopg", "pydantic", "orjson", "click", "rich", "asyncio", "psutil", "multiprocessing"}
    assert loaded_by(module) & slow == set()


def test_the_models_do_no_io() -> None:
    io = {"os", "io", "socket", "subprocess", "time", "psycopg", "pathlib", "logging", "random", "asyncio", "threading"}
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in FILES
        if room_of(module_of(path)) == "reproq.models"
        for line, name in imports_of(path)
        if name.split(".")[0] in io
    ]
    assert found == []


def test_every_folder_and_file_of_the_package_lies_in_a_known_room() -> None:
    here = {room_of(module_of(path)) for path in FILES} - {DOOR}
    assert here <= set(DEPTH)
