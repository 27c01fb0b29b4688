"""`make mutants`: small patches, each in a copy of the tree, and for each a scenario that must notice.

`python -m tests.faults.mutants [NAME…]` runs some and replaces their rows of the table in docs/reliability.md; without
names it writes the whole table. First the scenarios must pass on an unchanged copy: one that fails anyway catches
nothing. Nor does one that fails for another reason than an invariant or a bound of its own, as when no worker starts.
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
_ERRORS = re.compile(r"^E  +(.*)$", re.MULTILINE)
_INVARIANT = re.compile(r"\bI\d: ")
_BOUND = re.compile(r"(AssertionError: )?assert .* (==|!=|<=|>=|<|>|in) ")
_WAITED = "in vain for the end of "


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
    errors = _ERRORS.findall(ran.stdout[ran.stdout.find("= FAILURES =") :])
    if ran.returncode not in (0, 1) or (ran.returncode == 1 and not noticed(errors)):
        raise RuntimeError(f"{mutant and mutant.name}: {scenario} could not be run:\n{ran.stdout[-3000:]}{ran.stderr}")
    name = mutant.name if mutant else "(unchanged)"
    seen = errors[0].removeprefix("AssertionError: ") if errors else ""
    return Verdict(name, scenario, ran.returncode == 0, seen, time.monotonic() - began)


def noticed(errors: Sequence[str]) -> bool:
    """An assertion that names an invariant, or compares something with its bound. A wait in vain does so only if it was
    for the end of the tasks; else the tree may just be broken."""
    if not errors or not errors[0].startswith(("AssertionError", "assert ")):
        return False
    if " in vain for " in errors[0]:
        return _WAITED in errors[0]
    return any(_INVARIANT.search(error) or _BOUND.match(error) for error in errors)


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
    write(table(verdicts) if not given.names else replaced(verdicts))
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
    return "\n".join([*lines, *map(row, verdicts)])


def row(verdict: Verdict) -> str:
    seen = "**it survives**" if verdict.passed else short(verdict.seen)
    return f"| {verdict.mutant} | `{verdict.scenario}` | {seen} |"


def replaced(verdicts: Sequence[Verdict]) -> str:
    """The table as it stands, with new rows in the place of the old ones of the same mutants."""
    standing = TABLE.read_text().partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in standing[2:]}
    rows |= {verdict.mutant: row(verdict) for verdict in verdicts}
    return "\n".join([*standing[:2], *(rows[mutant.name] for mutant in MUTANTS if mutant.name in rows)])


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
