"""`make mutants`: thirteen small patches, each in a copy of the tree, and for each a scenario that must notice.

`python -m tests.faults.mutants [NAME…]` runs some; without names the table goes into docs/reliability.md. First
the scenarios must pass on an unchanged copy: a scenario that fails anyway catches nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.mutant_list import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- mutants: begin -->", "<!-- mutants: end -->"
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", "*.egg-info", "node_modules")
_PATIENCE_S = 40
_LIMIT_S = 600
_SEEN = re.compile(r"^E\s+(?:AssertionError: )?(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    mutant: str
    scenario: str
    passed: bool
    seen: str
    seconds: float


class StaleMutant(Exception):
    """Its old text isn't in the file exactly once: the code has moved on, the mutant must follow."""


@contextmanager
def copied(mutant: Mutant | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="reproq-mutant-") as folder:
        Path(folder).chmod(0o755)
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)
        for name, old, new in mutant.edits if mutant else ():
            mutate(tree / name, old, new)
        yield tree


def mutate(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    if text.count(old) != 1:
        raise StaleMutant(f"{path}: found {text.count(old)} times: {old!r}")
    path.write_text(text.replace(old, new))


def tried(mutant: Mutant | None, scenario: str) -> Verdict:
    """Runs one scenario, reduced, with seed 1; a mutant is caught when an assertion of the scenario fails."""
    began = time.monotonic()
    environ = os.environ | {"FAULTS_SIZE": "ci", "FAULTS_SEED": "1", "FAULTS_PATIENCE_S": str(_PATIENCE_S)}
    options = ["-q", "-x", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-k", scenario]
    with copied(mutant) as tree:
        command = [sys.executable, "-m", "pytest", "tests/faults", *options]
        ran = subprocess.run(
            command, check=False, cwd=tree, env=environ, capture_output=True, text=True, timeout=_LIMIT_S
        )
    seen = _SEEN.search(ran.stdout[ran.stdout.find("= FAILURES =") :])
    if ran.returncode not in (0, 1) or (ran.returncode == 1 and seen is None):
        raise RuntimeError(f"{mutant and mutant.name}: {scenario} could not be run:\n{ran.stdout[-3000:]}{ran.stderr}")
    name = mutant.name if mutant else "(unchanged)"
    return Verdict(name, scenario, ran.returncode == 0, seen[1] if seen else "", time.monotonic() - began)


def main(arguments: Sequence[str] | None = None) -> int:
    names = [mutant.name for mutant in MUTANTS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"some of: {', '.join(names)}")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if not given.names or mutant.name in given.names]
    scenarios = list(dict.fromkeys(mutant.scenario for mutant in chosen))
    with ThreadPoolExecutor(given.jobs) as pool:
        sound = list(pool.map(lambda scenario: _said(tried(None, scenario)), scenarios))
        verdicts = list(pool.map(lambda mutant: _said(tried(mutant, mutant.scenario)), chosen))
    if not given.names:
        write(table(verdicts))
    broken = [verdict.scenario for verdict in sound if not verdict.passed]
    survivors = [verdict.mutant for verdict in verdicts if verdict.passed]
    print(f"{len(verdicts) - len(survivors)} of {len(verdicts)} mutants caught", end="")
    print(f"; they survive: {survivors}" if survivors else "", end="")
    print(f"; these scenarios fail without any mutant: {broken}" if broken else "")
    return 1 if survivors or broken else 0


def _said(verdict: Verdict) -> Verdict:
    how = "passes" if verdict.passed else f"fails: {verdict.seen[:150]}"
    print(f"{verdict.mutant}: {verdict.scenario} {how} ({verdict.seconds:.0f} s)", flush=True)
    return verdict


def table(verdicts: Sequence[Verdict]) -> str:
    lines = ["| mutant | scenario | seen failing |", "|---|---|---|"]
    for verdict in verdicts:
        seen = "**it survives**" if verdict.passed else short(verdict.seen)
        lines.append(f"| {verdict.mutant} | `{verdict.scenario}` | {seen} |")
    return "\n".join(lines)


def short(seen: str) -> str:
    """Without what differs from run to run, and fit for a cell of a table."""
    text = re.sub(r"seed \d+: \d+ violations: ", "", seen)
    text = re.sub(r"(?<![\w.])\d+(\.\d+)?(?!\w)", "N", text)
    return text[:110].replace("|", "\\|").replace("<", "&lt;").strip()


def write(text: str) -> None:
    page = TABLE.read_text()
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    TABLE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    sys.exit(main())
