"""The nine invariants: each takes the evidence and answers what violates it, in words. Nothing here asks the program.

I1 every acknowledged enqueue exists once and ends final; every rolled-back one never exists
I2 one final state per task, one outcome per started execution; attempts as the journal counts them, within the maximum
I3 at most one start and one effect per execution, nothing before the start nor after the end
I4 an execution starts only after the last line of the one before
I5 SUCCESSFUL means: the effect is in the ledger
I6 afterwards: no orphan, no zombie, descriptors and memory of the runner as before
I7 no session idle in a transaction for more than a second
I8 a drain ends with status 0, leaves nothing leased and burns no attempt
I9 no write of a stale execution was accepted, none of another worker than the lease's holder, and none of its lines is
   later than the end of its lease
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from tests.faults.evidence import FINAL, Drain, Evidence, Execution, Row, Step

IDLE_S = 1.0
MORE_DESCRIPTORS = 4
MORE_MEMORY_KIB = 8 * 1024
LOOKS_A_SECOND = 1
CLAIMS_STOP_NS = 1_000_000_000
"""A claim may be under way when a worker is asked to end."""
SLACK_NS = 5_000_000
"""Two clocks of one machine, read at two moments."""

Violations = Iterator[str]


def i1_nothing_lost(evidence: Evidence) -> Violations:
    tokens: dict[str, list[Row]] = defaultdict(list)
    for row in evidence.rows.values():
        tokens[row.token or ""].append(row)
    for enqueue in evidence.enqueues:
        found = tokens.pop(enqueue.token, [])
        if enqueue.outcome == "rolled_back" and found:
            yield f"{enqueue.token} was rolled back and exists as task {found[0].id}"
        elif enqueue.outcome == "committed" and [row.id for row in found] != [enqueue.id]:
            yield f"{enqueue.token} was acknowledged as {enqueue.id} and exists as {[row.id for row in found]}"
        elif len(found) > 1:
            yield f"{enqueue.token} exists {len(found)} times"
        yield from (f"task {r.id} isn't over: {r.status}" for r in found if r.status not in FINAL or r.leased)
    for task in {line.task for line in evidence.lines} - set(evidence.rows):
        yield f"task {task} has lines in the ledger and no row"
    for token, rows in tokens.items():
        yield f"task {rows[0].id} ({token or 'no token'}) was enqueued by nobody"


def i2_one_end(evidence: Evidence) -> Violations:
    for task, row in evidence.rows.items():
        steps = evidence.by_task.get(task, [])
        ends = [step.new for step in steps if step.is_end]
        if row.status in FINAL and len(ends) != 1:
            yield f"task {task} reached {len(ends)} final states: {ends}"
        yield from _reopened(steps)
        yield from _miscounted(row, steps)
        yield from _misnumbered(row, steps)
    for execution in evidence.by_execution:
        yield from _outcomes(evidence, execution)
        yield from _misled(evidence, execution)


def _reopened(steps: list[Step]) -> Violations:
    for step in steps:
        if step.old in FINAL and step.new != step.old:
            yield f"task {step.task} was {step.old} and became {step.new}"
        if step.old in FINAL and step.is_claim:
            yield f"task {step.task} was {step.old} and was claimed as {step.claim}"
        elif step.old in FINAL and not step.is_release:
            yield f"task {step.task} was {step.old} and was written again"


def _miscounted(row: Row, steps: list[Step]) -> Violations:
    """One more a claim, one less a release that isn't counted; whatever else was done to the number is an error."""
    count = 0
    for step in steps:
        more = step.attempts - step.old_attempts
        if step.old_attempts != count or more not in ((1,) if step.is_claim else (0, -1) if step.is_release else (0,)):
            yield (
                f"the attempts of task {row.id} went from {count} by {step.old_attempts} to {step.attempts} "
                f"({step.old} to {step.new})"
            )
        count = step.attempts
        if not 0 <= count <= row.max_attempts or (step.new == "RETRYING" and count == 0):
            yield f"task {row.id} was {step.new} with {count} attempts of {row.max_attempts}"
    if row.attempts != count:
        yield f"task {row.id} used {count} attempts and says {row.attempts}"


def _misnumbered(row: Row, steps: list[Step]) -> Violations:
    claims = [step.claim for step in steps if step.is_claim]
    if len(set(claims)) != len(claims) or claims != sorted(claims):
        yield f"task {row.id} was claimed with the numbers {claims}"
    if row.claim != max(claims, default=0):
        yield f"task {row.id} says claim {row.claim} and was claimed with the numbers {claims}"


def _outcomes(evidence: Evidence, execution: Execution) -> Violations:
    releases = evidence.releases.get(execution, [])
    row = evidence.rows.get(execution[0])
    if len(releases) != 1 and row is not None and row.status in FINAL:
        yield f"execution {execution} has {len(releases)} outcomes: {[step.new for step in releases]}"
    for step in releases:
        if step.attempts < step.old_attempts and step.is_expiry:
            yield f"execution {execution} began and its lease ran out, but it wasn't counted"
        elif step.attempts < step.old_attempts and not _asked_to_end(evidence, step):
            yield f"execution {execution} began and wasn't counted, though nobody had asked its worker to end"


def _asked_to_end(evidence: Evidence, step: Step) -> bool:
    return any(step.worker and step.worker.startswith(d.worker) and step.at >= d.asked for d in evidence.drains)


def _misled(evidence: Evidence, execution: Execution) -> Violations:
    """What a handler was told of itself."""
    claim = evidence.claims.get(execution)
    told = {line.attempt for line in evidence.by_execution[execution]}
    if claim is None:
        yield f"execution {execution} ran and was claimed by nobody"
    elif told != {claim.attempts}:
        yield f"execution {execution} was attempt {claim.attempts} and was told {sorted(told)}"


def i3_once_an_execution(evidence: Evidence) -> Violations:
    for execution, lines in evidence.by_execution.items():
        count = Counter(line.kind for line in lines)
        for kind in ("start", "effect", "end"):
            if count[kind] > 1:
                yield f"execution {execution} has {count[kind]} lines of its {kind}"
        if count["start"] == 0:
            yield f"execution {execution} has lines and no start"
        elif lines[0].kind != "start" or (count["end"] and lines[-1].kind != "end"):
            yield f"execution {execution} wrote in the order {[line.kind for line in lines if line.kind != 'beat']}"
        pids = {line.pid for line in lines}
        if len(pids) > 1:
            yield f"execution {execution} ran in the processes {sorted(pids)}"


def i4_one_after_the_other(evidence: Evidence) -> Violations:
    last: dict[int, tuple[int, int]] = {}
    for (task, claim), lines in sorted(evidence.by_execution.items()):
        before, ended = last.get(task, (0, 0))
        if lines[0].ns < ended:
            yield (
                f"task {task}: claim {claim} began {(ended - lines[0].ns) / 1e6:.1f} ms before the last line "
                f"of claim {before}"
            )
        last[task] = (claim, max(ended, lines[-1].ns))


def i5_success_has_its_effect(evidence: Evidence) -> Violations:
    effects = {line.execution for line in evidence.lines if line.kind == "effect"}
    for row in evidence.rows.values():
        if row.status == "SUCCESSFUL" and (row.id, row.claim) not in effects:
            yield f"task {row.id} is SUCCESSFUL by claim {row.claim}, whose effect isn't in the ledger"


def i6_nothing_left(evidence: Evidence) -> Violations:
    yield from (f"still there: {orphan}" for orphan in evidence.orphans)
    yield from (f"dead and not buried: {zombie}" for zombie in evidence.zombies)
    for before, after in evidence.bodies:
        if not (before.descriptors and after.descriptors):
            yield f"the runner's descriptors could not be counted: {before}, {after}"
        if after.descriptors > before.descriptors + MORE_DESCRIPTORS:
            yield f"the runner had {before.descriptors} descriptors and has {after.descriptors}"
        if after.memory_kib > before.memory_kib + MORE_MEMORY_KIB:
            yield f"the runner had {before.memory_kib} KiB and has {after.memory_kib}"


def i7_no_idle_transaction(evidence: Evidence) -> Violations:
    watch = evidence.watch
    if watch.looks < max(1.0, watch.seconds * LOOKS_A_SECOND):
        yield f"the sessions were looked at {watch.looks} times in {watch.seconds:.0f} s"
    for idler in evidence.idlers:
        if idler.seconds > IDLE_S:
            yield f"session {idler.name!r} was idle in a transaction for {idler.seconds:.1f} s"


def i8_drained(evidence: Evidence) -> Violations:
    for drain in evidence.drains:
        if drain.status != 0:
            yield f"worker {drain.worker} ended with status {drain.status}"
        mine = [step for step in evidence.steps if step.worker and step.worker.startswith(drain.worker)]
        for step in mine:
            yield from _burned(step, drain)
            if step.is_claim and step.at > drain.asked + CLAIMS_STOP_NS:
                yield f"{drain.worker} was asked to end and claimed task {step.task} {_ms(step.at - drain.asked)} later"
        then = {step.task: step for step in mine if step.at <= drain.gone + SLACK_NS}
        for step in then.values():
            if step.is_leased:
                yield f"task {step.task} was still leased to {drain.worker} when that was gone"


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.1f} ms"


def _burned(step: Step, drain: Drain) -> Violations:
    if not (step.is_release and step.at >= drain.asked) or step.new in ("SUCCESSFUL", "CANCELLED"):
        return
    if step.is_expiry:
        yield f"the drain of {drain.worker} left task {step.task} to its lease"
    elif step.attempts != step.old_attempts - 1:
        yield f"the drain of {drain.worker} cost task {step.task} an attempt ({step.old} to {step.new})"


def i9_nothing_stale(evidence: Evidence) -> Violations:
    for step in evidence.steps:
        if step.writer and step.worker and not step.worker.startswith(f"{step.writer}/") and _is_held(step):
            yield f"{step.writer} wrote task {step.task} while {step.worker} held it ({step.old} to {step.new})"
    for row in evidence.rows.values():
        if (
            row.status == "SUCCESSFUL"
            and isinstance(row.result, dict)
            and row.result.get("claim", row.claim) != row.claim
        ):
            yield f"task {row.id} belongs to claim {row.claim} and has the result of claim {row.result['claim']}"
    for execution, lines in evidence.by_execution.items():
        for step in evidence.releases.get(execution, []):
            over = min(step.at, step.lease_end or step.at)
            if lines[-1].ns > over + SLACK_NS:
                yield (
                    f"execution {execution} wrote {lines[-1].kind} {(lines[-1].ns - over) / 1e6:.1f} ms after "
                    f"its lease was gone ({step.old} to {step.new})"
                )


def _is_held(step: Step) -> bool:
    return step.was_leased and (step.lease_end is None or step.at <= step.lease_end)


INVARIANTS: dict[str, Callable[[Evidence], Violations]] = {
    "I1": i1_nothing_lost,
    "I2": i2_one_end,
    "I3": i3_once_an_execution,
    "I4": i4_one_after_the_other,
    "I5": i5_success_has_its_effect,
    "I6": i6_nothing_left,
    "I7": i7_no_idle_transaction,
    "I8": i8_drained,
    "I9": i9_nothing_stale,
}


def violations(evidence: Evidence, names: str = "I1 I2 I3 I4 I5 I6 I7 I8 I9") -> list[str]:
    return [f"{name}: {text}" for name in names.split() for text in INVARIANTS[name](evidence)]
