"""A clean Debian, made from the registry that this machine's apt uses, in which the operator's guide is followed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

from tests.units.machine import ROOT

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.S | re.M)
SOURCE = re.compile(r"^SOURCE=.*$", re.M)
UPGRADE = re.compile(r"^(?=BEFORE=)", re.M)
_RELEASE = """(cd /srv/reproq.git
sed -i 's/__version__ = .*/__version__ = "9.9.9"/' reproq/__init__.py
git -c user.name=guide -c user.email=guide@example.org commit --quiet --all --message 'a newer one')
"""
_SUITE = "bookworm"
_WITH = "systemd,systemd-sysv,dbus,ca-certificates"
_OURS = ("pip.conf", ".config/pip/pip.conf")  # how this machine reaches its registries, for root


def commands(page: str) -> str:
    """What the page tells to type, with the address of the repository put in, and a release made before the upgrade."""
    script = "\n".join(text for language, text in FENCE.findall(page) if language == "sh")
    script, upgrades = UPGRADE.subn(lambda _: _RELEASE, script)
    assert upgrades == 1
    return SOURCE.sub("SOURCE=/srv/reproq.git", script, count=1)


def answers(page: str) -> list[str]:
    """What the page says is printed, line by line."""
    return [line for language, text in FENCE.findall(page) if not language for line in text.splitlines()]


def mirror() -> str | None:
    """The first Debian registry that this machine knows."""
    lists = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    text = "\n".join(path.read_text() for path in lists if path.suffix in (".list", ".sources") and path.exists())
    found = re.search(r"^(?:URIs:|deb(?:\s+\[[^]]*\])?)\s+(\S+/debian/?)(?:\s|$)", text, re.M)
    return found[1] if found else None


def debian(folder: Path) -> Path:
    """The tree, made once in this folder."""
    if not (folder / "etc/debian_version").exists():
        address = mirror()
        assert address is not None, "this machine's apt knows no Debian registry"
        assert shutil.which("debootstrap"), "install debootstrap"
        made = ["debootstrap", "--variant=minbase", f"--include={_WITH}", _SUITE, str(folder), address]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, timeout=600)
    return folder


def repository(folder: Path) -> Path:
    """This checkout as it is now, as something to clone."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git = ["git", "-C", str(folder), "-c", "user.name=guide", "-c", "user.email=guide@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "what the guide installs"]):
        subprocess.run([*git, *words], check=True)
    return folder


def prepared(repository: Path) -> str:
    """What an operator's server has from the start: a network, names, certificates, registries. And a repository."""
    copied = [Path(path) for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs")]
    copied += [path for path in Path("/etc/apt/apt.conf.d").glob("*") if "registry" in path.name]
    lines = [f'cp -rL --parents {shlex.quote(str(path))} "$root" 2>/dev/null || true' for path in copied]
    for name in _OURS:
        home = Path.home() / name
        if home.exists():
            lines.append(f'install -D -m 644 {shlex.quote(str(home))} "$root/root/{name}"')
    lines.append(
        f'cp -r {shlex.quote(str(repository))} "$root/srv/reproq.git"; chown -R root:root "$root/srv/reproq.git"'
    )
    return "\n".join(lines)
