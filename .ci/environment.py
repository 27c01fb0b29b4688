"""Make the project's environment, from whatever this machine has: `environment.py VENV PROJECT`. Standard library only.

Distributions take `ensurepip` out of Python, and may lack pip too. So, in this order: a normal venv; a venv without
pip, filled by the machine's own pip; the same, filled by the pip wheel from the registry; as root, the distribution's
package.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

EXTRAS = "embedded,dev"
QUIET = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore", "DEBIAN_FRONTEND": "noninteractive"}
HINT = """Is the package registry reachable (PIP_INDEX_URL, proxy)? On Debian and Ubuntu this may be missing:
    apt-get install python3-venv"""


def main() -> int:
    """Make the environment, install the project into it, and leave a stamp that make compares."""
    venv, project = Path(sys.argv[1]).absolute(), Path(sys.argv[2])
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"making {venv.name} with Python {version}: about a minute … ", end="", flush=True)
    (venv / ".installed").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            pip = make(venv, Path(scratch))
            run([*pip, "install", "--quiet", "--editable", f"{project}[{EXTRAS}]"])
        except (subprocess.CalledProcessError, OSError) as exc:
            return give_up(exc)
    (venv / ".installed").write_text(f"{project}\n")
    print("ready")
    return 0


def make(venv: Path, scratch: Path) -> list[str]:
    """Make the venv and return a pip that installs into it."""
    python = str(venv / "bin/python")
    if try_venv(venv):
        return [python, "-m", "pip"]
    run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(venv)])
    if works([sys.executable, "-m", "pip", "--python", python, "--version"]):
        return [sys.executable, "-m", "pip", "--python", python]
    try:
        return [python, str(fetch_pip(scratch) / "pip")]
    except OSError:
        if os.geteuid() == 0 and shutil.which("apt-get"):
            works(["apt-get", "update", "-q"])
            run(["apt-get", "install", "-q", "-y", "python3-venv"])
            if try_venv(venv):
                return [python, "-m", "pip"]
        raise


def try_venv(venv: Path) -> bool:
    """Make a normal venv, if this Python can."""
    return works([sys.executable, "-m", "venv", "--clear", str(venv)])


def fetch_pip(scratch: Path) -> Path:
    """Fetch pip's wheel, which runs as it is, from the registry that pip itself would ask."""
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + "/pip/"
    with urllib.request.urlopen(index, timeout=60) as answer:  # noqa: S310 - the address is the operator's own
        page = answer.read().decode()
    links = re.findall(r'href="([^"]*/(pip-(\d+)\.(\d+)(?:\.(\d+))?-py3-none-any\.whl)[^"]*)"', page)
    if not links:
        raise OSError(f"{index} lists no pip")
    newest = max(links, key=lambda link: [int(number or 0) for number in link[2:]])
    wheel = scratch / newest[1]
    with urllib.request.urlopen(urllib.parse.urljoin(index, newest[0]), timeout=60) as answer:  # noqa: S310
        wheel.write_bytes(answer.read())
    return wheel


def works(command: list[str]) -> bool:
    """Say whether a command succeeds."""
    try:
        run(command)
    except (subprocess.CalledProcessError, OSError):
        return False
    return True


def run(command: list[str]) -> None:
    """Run a command silently."""
    subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **QUIET})


def give_up(exc: Exception) -> int:
    """Say what went wrong, in its own words, and what to do."""
    print("failed")
    said = getattr(exc, "stderr", None) or getattr(exc, "stdout", None) or ""
    print(f"{exc}\n{said[-2000:]}", file=sys.stderr)
    print(HINT, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
