"""`python -m cmd.worker`, and the standard library's module of the same name, which pdb and doctest (so pytest) import.

Whoever imports `cmd` with this folder first on the path gets this package; it answers with the standard module's names.
"""

from functools import cache
from types import ModuleType

__all__ = ["Cmd"]


@cache
def _standard() -> ModuleType:
    import sysconfig
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("cmd", [sysconfig.get_path("stdlib")])
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(f"module 'cmd' has no attribute {name!r}")
    return getattr(_standard(), name)
