"""A machine for units: a real systemd in namespaces of its own (boot.sh), with this checkout in /opt/reproq.

The network is this machine's, so the units reach the tests' PostgreSQL. Memory and CPU limits can't be seen at work
here: the cgroups of the namespace have no controllers.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

from tests.worker.harness import wait_until

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
UNITS = ROOT / "deploy/systemd"
_PARTS = ("cmd", "reproq", "migrations", "deploy")
_SYSTEMD = Path("/lib/systemd/systemd")
_NOT_GOT = 3
_NAMESPACES = ("--pid", "--mount", "--uts", "--ipc", "--cgroup", "--fork", "--propagation", "private")
_TRIAL = """set -e
mount -t tmpfs none /tmp; mkdir /tmp/upper /tmp/work /tmp/root
mount -t overlay -o lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work none /tmp/root
mount -t sysfs -o ro none /tmp/root/sys; mount -t cgroup2 none /tmp/root/sys/fs/cgroup"""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@cache
def why_not() -> str | None:
    """Why no systemd can be booted here."""
    if os.geteuid() != 0:
        return "booting a systemd needs root"
    needed = ("unshare", "nsenter", "setpriv", "bash", "hostname")
    missing = [program for program in needed if shutil.which(program) is None]
    if missing:
        return f"booting a systemd needs {', '.join(missing)}: install util-linux, bash and hostname"
    if not _SYSTEMD.exists() and shutil.which("apt-get") is None:
        return "there is no systemd here: install it (apt-get install systemd, dnf install systemd)"
    if not os.access(_cgroups(), os.W_OK):
        return f"no cgroup can be made in {_cgroups()}: run in a privileged container, or on a machine of its own"
    trial = ["unshare", *_NAMESPACES, "sh", "-c", _TRIAL]
    tried = subprocess.run(trial, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        return f"namespaces are refused here: {tried.stderr.strip()}"
    return None


class NoSystemd(Exception):
    """It had to be got first, and that failed."""


class Machine:
    """`prepare` is shell that runs with $root, the machine's tree, before it boots `unit`."""

    def __init__(self, folder: Path, prepare: str = "", *, unit: str = "basic.target", lower: str = "/") -> None:
        script = folder / "prepare"
        script.write_text(f"#!/bin/bash\nset -euo pipefail\nroot=$1\n{prepare}\n")
        script.chmod(0o755)
        (folder / "scratch").mkdir()
        self._said = folder / "boot.log"
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [str(HERE / "boot.sh"), lower, str(folder / "scratch"), str(script), unit],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        try:
            wait_until(self._is_up, self._boot_log, every_s=0.02)
        except BaseException:
            self.shut_down()
            raise

    def _boot_log(self) -> str:
        return f"the boot: {self._said.read_text(errors='replace')}"

    def _is_up(self) -> bool:
        if self._process.poll() == _NOT_GOT:
            raise NoSystemd(f"install systemd: there is none here, and apt-get couldn't get one. {self._boot_log()}")
        assert self._process.poll() is None, self._boot_log()
        if self._first() is None or self.run("test", "-S", "/run/systemd/private", check=False).returncode != 0:
            return False
        return self.systemctl("is-system-running", check=False) in ("running", "degraded")

    def _first(self) -> int | None:
        """The process that is 1 in there, once it is systemd."""
        pid = self._process.pid
        try:
            found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            return int(found[0]) if found and Path(f"/proc/{found[0]}/comm").read_text() == "systemd\n" else None
        except OSError:
            return None

    def run(
        self, *command: str, check: bool = True, said: str | None = None, patience_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["nsenter", "-t", str(self._first()), "-a", "env", "-i", f"PATH={_PATH}", "HOME=/root", "LANG=C.UTF-8",
             *command],
            input=said, capture_output=True, text=True, check=False, timeout=patience_s,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{shlex.join(command)}: {done.stdout}{done.stderr}"
        return done

    def systemctl(self, *words: str, check: bool = True, patience_s: float = 60) -> str:
        return self.run("systemctl", *words, check=check, patience_s=patience_s).stdout.strip()

    def show(self, unit: str, *names: str) -> dict[str, str]:
        shown = self.systemctl("show", unit, *(f"--property={name}" for name in names))
        return dict(line.split("=", 1) for line in shown.splitlines())

    def is_(self, unit: str, **wanted: str) -> bool:
        """`is_(unit, ActiveState="active")`"""
        return self.show(unit, *wanted) == wanted

    def pid(self, unit: str) -> int:
        """Its main process, in the machine's own numbers."""
        return int(self.show(unit, "MainPID")["MainPID"])

    def processes(self, unit: str) -> list[int]:
        group = self.show(unit, "ControlGroup")["ControlGroup"]
        listed = self.run("cat", f"/sys/fs/cgroup{group}/cgroup.procs", check=False).stdout
        return [int(word) for word in listed.split()] if group else []

    def write(self, path: str, text: str, mode: str = "644") -> None:
        self.run("install", "-D", "-m", mode, "/dev/stdin", path, said=text)

    def log(self, unit: str) -> str:
        return self.run("journalctl", "-o", "cat", "--no-pager", f"--unit={unit}").stdout

    def events(self, unit: str, name: str) -> list[dict[str, Any]]:
        """Lines of the journal that the unit's own processes wrote, as JSON, of this event."""
        lines = [json.loads(line) for line in self.log(unit).splitlines() if line.startswith('{"ts"')]
        return [line for line in lines if line["event"] == name]

    def shut_down(self) -> None:
        """Whatever runs in there ends with its process 1, and what was written goes too."""
        group = Path(_cgroups()) / f"reproq-units-{self._process.pid}"
        self._process.kill()
        self._process.wait()
        wait_until(lambda: _is_removed(group), f"the end of {group}")


def _cgroups() -> str:
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return next((fields[1] for fields in mounts if fields[2] == "cgroup2"), "/sys/fs/cgroup")


def _is_removed(group: Path) -> bool:
    for path in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
        _rmdir(path)
    _rmdir(group)
    return not group.exists()


def _rmdir(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:  # a process of it is still ending
        pass


# -- what is on it -----------------------------------------------------------------------------------------------------


def with_systemd() -> str:
    """A machine without one gets it from its distribution's registry, into the throw-away tree alone."""
    got = 'chroot "$root" apt-get install -q -y --no-install-recommends systemd'
    return (
        '[ -x "$root/lib/systemd/systemd" ] || { chroot "$root" apt-get update -q &&'
        f" DEBIAN_FRONTEND=noninteractive {got}; }} || exit {_NOT_GOT}"
    )


def with_reproq() -> str:
    """The checkout, with the environment that the tests run in, owned by root; units and their folders."""
    parts = shlex.join(str(ROOT / part) for part in _PARTS)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = f'"$root/opt/reproq/.venv/lib/{version}/site-packages"'
    return "\n".join(
        [
            with_systemd(),
            'mkdir -p "$root/opt/reproq/.venv/bin"',
            f'cp -r {parts} "$root/opt/reproq"',
            'rm -rf "$root"/etc/systemd/system/reproq* "$root/etc/reproq"',
            f"mkdir -p {site}; mount --bind {shlex.quote(sysconfig.get_path('purelib'))} {site}",
            f'ln -s {_interpreter()} "$root/opt/reproq/.venv/bin/python"',
            f'echo "home = {_interpreter().parent}" > "$root/opt/reproq/.venv/pyvenv.cfg"',
            'echo "include-system-site-packages = false" >> "$root/opt/reproq/.venv/pyvenv.cfg"',
            'chmod -R a+rX,go-w "$root/opt/reproq/cmd" "$root/opt/reproq/reproq" "$root/opt/reproq/migrations"',
            'chown -R root:root "$root/opt/reproq/cmd" "$root/opt/reproq/reproq" "$root/opt/reproq/migrations"',
            'cp "$root"/opt/reproq/deploy/systemd/*.{service,target} "$root/etc/systemd/system"',
            'install -d -m 700 "$root/etc/reproq/credentials"',
            _with_open_homes(),
        ]
    )


def _interpreter() -> Path:
    """The system's, if it is of the version that the tests run in: units see no home, and Python often lies in one."""
    own = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    system = Path("/usr/bin") / own.name
    return system if system.exists() else own


def _with_open_homes() -> str:
    interpreter = _interpreter()
    if not interpreter.is_relative_to("/root") and not interpreter.is_relative_to("/home"):
        return ""
    folders = " ".join(shlex.quote(f"$root{folder}") for folder in interpreter.parents)
    drop = '"$root/etc/systemd/system/service.d"'
    return (
        f"mkdir -p {drop}; printf '[Service]\\nProtectHome=read-only\\n' > {drop}/tests.conf\n"
        f'for folder in {folders.replace(chr(39), chr(34))}; do chmod a+x "$folder"; done'
    )
