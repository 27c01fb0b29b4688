"""A rule, what it finds, and the verdict over it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence

from reproq.db.doctor.scene import Scene, Unseen


class Severity(enum.StrEnum):
    ERROR = "error"  # something doesn't work, or what was promised isn't kept
    WARNING = "warning"  # it works, and will hurt
    NOTE = "note"  # worth knowing: told, and no finding


@dataclasses.dataclass(frozen=True)
class Finding:
    """What is wrong, and the SQL or the command that puts it right; of its rule's severity unless it says another."""

    what: str
    fix: str = ""
    severity: Severity | None = None


Find = Callable[[Scene], Iterable[Finding]]


@dataclasses.dataclass(frozen=True)
class Rule:
    """`says` is true where nothing is found; `how` names what was looked at."""

    name: str
    says: str
    how: str
    find: Find
    severity: Severity = Severity.ERROR

    def severity_of(self, finding: Finding) -> Severity:
        return finding.severity or self.severity


@dataclasses.dataclass(frozen=True)
class Verdict:
    rule: Rule
    findings: tuple[Finding, ...] = ()
    unseen: str | None = None

    @property
    def failed(self) -> bool:
        return any(self.rule.severity_of(finding) is not Severity.NOTE for finding in self.findings)

    @property
    def word(self) -> str:
        if not self.findings:
            return "ok" if self.unseen is None else "not seen"
        return f"{len(self.findings)} {'found' if self.failed else 'told'}"


def query(statement: str) -> Find:
    """A rule that is one query: each row is a finding, its text and its fix."""

    def find(scene: Scene) -> Iterator[Finding]:
        for what, fix in scene.ask(statement):
            yield Finding(str(what), str(fix or ""))
        scene.admit(statement)

    return find


def examine(scene: Scene, rules: Sequence[Rule]) -> list[Verdict]:
    """Every rule is asked, whatever the others found."""
    return [_verdict(scene, rule) for rule in rules]


def _verdict(scene: Scene, rule: Rule) -> Verdict:
    """A login that sees a part of it still tells what it found there."""
    findings: list[Finding] = []
    try:
        findings.extend(rule.find(scene))
    except Unseen as problem:
        return Verdict(rule, tuple(findings), str(problem))
    return Verdict(rule, tuple(findings))
