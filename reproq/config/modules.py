"""Is the user's module there? Asked in the parent, which must never import user code.

`importlib.util.find_spec("shop.tasks")` imports `shop`, so only the first name goes through it; the rest is looked up
on the package's own path. Children run with the working directory first on their path, so it counts here too.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from reproq.config.settings import SettingsError
from reproq.config.values import shown


def require(names: Iterable[str]) -> None:
    for name in names:
        missing = first_missing(name)
        if missing:
            raise SettingsError(
                f"no module {shown(missing)} for --app {name}: looked in {Path.cwd()} and the Python path; "
                "start in your project's folder or set PYTHONPATH"
            )


def first_missing(name: str) -> str | None:
    top, *rest = name.split(".")
    spec, known = _top(top), top
    if spec is None:
        return top
    for part in rest:
        known = f"{known}.{part}"
        if _moves_its_path(spec):
            return None
        spec = PathFinder.find_spec(known, list(spec.submodule_search_locations or ()))
        if spec is None:
            return known
    return None


def _top(name: str) -> ModuleSpec | None:
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    return found or PathFinder.find_spec(name, [str(Path.cwd())])


def _moves_its_path(spec: ModuleSpec) -> bool:
    """A package that changes __path__ while it is imported can have modules where nobody can see them from outside."""
    if not spec.has_location or not spec.origin or not spec.origin.endswith(".py"):
        return spec.submodule_search_locations is None and spec.origin is not None
    try:
        return b"__path__" in Path(spec.origin).read_bytes()
    except OSError:
        return True
