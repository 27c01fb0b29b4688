"""docs/operate.md, followed to the letter in a clean Debian: `make guide`. It takes some minutes and a registry, so the
suite alone doesn't run it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from reproq import __version__
from tests.units.guide import answers, commands, debian, mirror, prepared, repository
from tests.units.machine import ROOT, Machine, why_not

PAGE = (ROOT / "docs/operate.md").read_text("utf-8")


def test_the_commands_of_the_guide_are_shell() -> None:
    done = subprocess.run(["bash", "-n"], input=commands(PAGE), capture_output=True, text=True, check=False)
    assert done.stderr == ""


@pytest.mark.timeout(1200)
def test_an_empty_server_becomes_a_running_service_by_the_guide_alone(tmp_path: Path) -> None:
    if not os.environ.get("GUIDE"):
        pytest.skip("takes minutes and a Debian registry: run make guide")
    if reason := why_not() or (None if mirror() else "this machine's apt knows no Debian registry"):
        pytest.skip(reason)
    tree = debian(Path(os.environ.get("GUIDE_TREE") or tmp_path / "debian"))
    (tmp_path / "repository").mkdir()
    prepare = prepared(repository(tmp_path / "repository"))
    machine = Machine(tmp_path, prepare, unit="multi-user.target", lower=str(tree))
    registry = [f"{name}={value}" for name, value in os.environ.items() if re.match("PIP_(?!FIND)", name)]
    try:
        machine.write("/root/guide.sh", commands(PAGE))
        type_it = ("bash", "-euo", "pipefail", "-x", "/root/guide.sh")
        done = machine.run("env", "DEBIAN_FRONTEND=noninteractive", *registry, *type_it, check=False, patience_s=1100)
        said = done.stderr + machine.log("reproq-*") + done.stdout
        assert done.returncode == 0, said[-8000:]
        missing = [line for line in answers(PAGE) if line not in done.stdout.splitlines()]
        assert missing == [], said[-8000:]
        installed = re.findall(r"^Reproq (\S+) is installed", done.stdout, re.M)
        assert installed == [__version__, "9.9.9", __version__], "installed, upgraded, gone back"
        left = machine.run("sh", "-c", "ls -d /etc/systemd/system/*reproq* /etc/systemd/system/*/*reproq*", check=False)
        assert left.stdout == "", "removed"
    finally:
        machine.shut_down()
