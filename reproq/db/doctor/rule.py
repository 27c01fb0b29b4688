"""A rule, what it finds, and the verdict over it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

from reproq.db.doctor.scene import Scene, Unseen


@dataclasses.dataclass(frozen=True)
class Finding:
    """What is wrong, and the SQL or the command that puts it right."""

    what: str
    fix: str = ""


Find = Callable[[Scene], Iterable[Finding]]


@dataclasses.dataclass(frozen=True)
class Rule:
    """`says` is true where nothing is found; `how` names what was looked at. One that only tells never fails."""

    name: str
    says: str
    how: str
    find: Find
    only_tells: bool = False


@dataclasses.dataclass(frozen=True)
class Verdict:
    rule: Rule
    findings: tuple[Finding, ...] = ()
    unseen: str | None = None

    @property
    def failed(self) -> bool:
        return bool(self.findings) and not self.rule.only_tells

    @property
    def word(self) -> str:
        if not self.findings:
            return "ok" if self.unseen is None else "not seen"
        return f"{len(self.findings)} told" if self.rule.only_tells else f"{len(self.findings)} found"


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
