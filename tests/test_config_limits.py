"""[[limits]] tables of reproq.toml."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reproq.config import Limits, Settings, SettingsError, load
from reproq.executor.members import Confinement
from reproq.runner.crew import kinds

DSN = {"database_url": "postgresql://u@h/d"}


def settings(folder: Path, text: str, app: tuple[str, ...] = ("reproq.bench.app",)) -> Settings:
    path = folder / "reproq.toml"
    path.write_text(text)
    return load({**DSN, "app": app}, {}, path)


def test_limits_are_tables_of_the_file(tmp_path: Path) -> None:
    text = (
        '[[limits]]\nprefix = "media."\nmemory = "1GiB"\ncpu = "90s"\nfiles = 200\nprocesses = 50\n'
        'file_size = "10MiB"\n'
        "children = 3\n"
    )
    (entry,) = settings(tmp_path, text).limits
    assert entry == Limits("media.", 3, 2**30, 90.0, 200, 50, 10 * 2**20)
    assert entry.rlimits == {"as": 2**30, "cpu": 90, "nofile": 200, "nproc": 50, "fsize": 10 * 2**20}


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ("memory = 5", "prefix is missing"),
        ('prefix = "a."\nmemroy = 5', "did you mean memory?"),
        ('prefix = "a."\nmemory = 5', "out of range"),
        ('prefix = "a."\ncpu = "soon"', "isn't a duration"),
        ('prefix = "a."\nuid = "no_such_user"', "is no user"),
        ('prefix = "a."\nuid = 0', "0 is root"),
        ('prefix = "a."\nuid = "9-3"', "no range of user numbers"),
        ('prefix = "a."\nnetwork = "some"', "neither none nor shared"),
        ('prefix = "a."\n[[limits]]\nprefix = "a."', "two limits"),
    ],
)
def test_a_bad_limit_is_refused_with_its_name(tmp_path: Path, table: str, hint: str) -> None:
    with pytest.raises(SettingsError, match=hint.replace("?", r"\?")):
        settings(tmp_path, "[[limits]]\n" + table)


def test_limits_that_nothing_would_keep_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nothing serves it"):
        settings(tmp_path, '[[limits]]\nprefix = "a."', app=())
    both = '[[command]]\nprefix = "a."\ncommand = "sh"\n[[limits]]\nprefix = "a."\nchildren = 2'
    with pytest.raises(SettingsError, match="leave children away"):
        settings(tmp_path, both)


@pytest.mark.parametrize("line", ["uid = 20000", 'uid = 20000\nnetwork = "none"'])
def test_what_only_root_can_do_is_refused_to_others_at_start(
    tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SettingsError, match="need a worker that runs as root"):
        settings(tmp_path, f'[[limits]]\nprefix = "a."\n{line}')
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert len(settings(tmp_path, f'[[limits]]\nprefix = "a."\n{line}').limits) == 1


def test_root_without_a_uid_isnt_kept_from_the_network_and_so_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(SettingsError, match='network = "none" needs uid too'):
        settings(tmp_path, '[[limits]]\nprefix = "a."\nnetwork = "none"')


def test_each_entry_is_a_pool_of_its_own_and_the_longest_prefix_comes_first(tmp_path: Path) -> None:
    text = '[[limits]]\nprefix = "a."\nfiles = 200\n[[limits]]\nprefix = "a.b."\ncpu = 5\n'
    text += '[[command]]\nprefix = "c."\ncommand = "sh"\n[[limits]]\nprefix = "c."\nmemory = "1GiB"\n'
    found = {kind.name: kind for kind in kinds(settings(tmp_path, text))}
    assert [found[name].prefixes for name in ("command0", "limited0", "limited1", "app")] == [
        ("c.",), ("a.b.",), ("a.",), None,
    ]  # fmt: skip
    assert found["command0"].confinement.limits == {"as": 2**30}
    assert (found["limited0"].recycle, bool(found["limited0"].template)) == (1, True)  # CPU counts per process
    assert (found["limited1"].size, found["limited1"].recycle) == (1, found["app"].recycle)
    assert found["app"].confinement == Confinement()
    assert not found["app"].confinement.new_privileges
