"""Supervisors driven through random orders of runs, failures, losses and interventions, beside a model in a few lines.

Whatever happens: one attempt at a time, one chain, one end, and the end is the one that the model expects.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from .conftest import Attempt, Post

MAX_ATTEMPTS = 3
RUN_LIMIT = 5
# Weighted, as are the rules that end a process at once: most should live for a while.
ANSWERS = ["provider_refused"] * 5 + ["provider_unavailable"] * 5 + ["permanent", "unknown", "accepted"]
seldom = st.integers(0, 9).map(lambda number: number == 7)


@dataclass
class Model:
    """What the process must know by now."""

    attempts_used: int = 0
    decisions: int = 0
    refunds: int = 0
    succeeded: bool = False
    permanent: bool = False
    unknown: bool = False
    cancelled: bool = False
    outstanding: bool = False
    lost: str | None = None  # how the outstanding attempt was lost, until a supervisor sees it
    ended: str | None = None

    def supervise(self) -> None:
        if self.ended:
            return
        settled = self.lost is not None
        if self.lost == "begun":
            self.unknown = True
        elif self.lost == "answered":
            self.succeeded = True
        if settled:
            self.lost, self.outstanding = None, False
        verdict = self._verdict()
        if verdict == "schedule":
            self.outstanding = True
        elif verdict is not None:
            self.ended = verdict
        self.decisions += settled or verdict is not None

    def _verdict(self) -> str | None:
        if self.succeeded:
            return "succeeded"
        if self.outstanding:
            return None
        if self.unknown:
            return "unknown"
        if self.permanent or self.attempts_used >= MAX_ATTEMPTS:
            return "failed"
        return "run_limit" if self.decisions - self.refunds >= RUN_LIMIT else "schedule"


class Machine(RuleBasedStateMachine):
    def __init__(self, post: Post) -> None:
        super().__init__()
        self.post = post
        self.model = Model()
        self.held: Attempt | None = None
        self.begun = False
        post.rows("delete from queues.task_runs")  # what an example before this one left
        self.send = post.send(f", max_attempts => {MAX_ATTEMPTS}")

    @rule(times=st.integers(1, 3))
    def supervise(self, times: int) -> None:
        for _ in range(times):
            self.post.run_supervisor(self.send)
            self.model.supervise()

    @precondition(lambda self: self.model.outstanding and not self.held and not self.model.lost)
    @rule()
    def claim(self) -> None:
        self.held, self.begun = self.post.take(), False

    @precondition(lambda self: self.held and not self.begun)
    @rule()
    def begin(self) -> None:
        assert self.held
        self.begun = True
        assert self.post.begin(self.held)["outcome"]["success"] is not self.model.cancelled
        if self.model.cancelled:
            self.post.fail(self.held, "validation", permanent=True)
            self._let_go()

    @precondition(lambda self: not self.model.ended and not (self.held and self.begun))
    @rule(steps=st.integers(1, 3))
    def go_on(self, steps: int) -> None:
        """The way of most attempts, up to the call of the provider: alone, chance rarely gets that far."""
        for _ in range(steps):
            if self.held and not self.begun:
                self.begin()
            elif self.model.outstanding and not self.held and not self.model.lost:
                self.claim()
            elif not self.held:
                self.supervise(1)

    @precondition(lambda self: self.held and self.begun)
    @rule(answer=st.sampled_from(ANSWERS))
    def the_provider_answers(self, answer: str) -> None:
        assert self.held
        if answer == "accepted":
            self.post.succeed(self.held)
            self.model.succeeded = True
        else:
            kind = "provider_refused" if answer == "permanent" else answer
            self.post.fail(self.held, kind, permanent=answer == "permanent")
            self.model.attempts_used += kind == "provider_refused"
            self.model.refunds += kind == "provider_unavailable"
            self.model.permanent |= answer == "permanent"
            self.model.unknown |= kind == "unknown"
        self._let_go()

    @precondition(lambda self: self.held)
    @rule(answered=st.booleans(), late=seldom)
    def lose(self, answered: bool, late: bool) -> None:
        """The worker dies: before the call, after it, or between the answer and the handler."""
        assert self.held
        if self.begun and not late:
            return
        if self.begun and answered:
            self.post.keep(self.held, {"provider": "test", "provider_message_id": "kept"})
        self.post.die(self.held)
        self.model.lost = "waiting" if not self.begun else "answered" if answered else "begun"
        self.held, self.begun = None, False

    @precondition(lambda self: self.model.outstanding and not self.held and not self.model.lost)
    @rule()
    def delete_the_attempt(self) -> None:
        task = self.post.facts("scheduled")[-1]["task_run_id"]
        self.post.rows("select queues.soft_delete(%s, 'by mistake')", task)
        self.model.lost = "waiting"

    @rule()
    def delete_the_supervisor(self) -> None:
        self.post.rows("delete from queues.task_runs where task_type = 'db_function'")
        self.post.rows("select comms.resume_supervisors()")

    @rule(really=seldom)
    def cancel(self, really: bool) -> None:
        if not really:
            return
        answer = self.post.value(f"select comms.cancel_{self.post.channel.name}(%s)", self.send, by=self.post.app)
        on_its_way = self.model.outstanding and (self.begun or self.model.lost in ("begun", "answered"))
        too_late = self.model.ended or self.model.succeeded or self.model.unknown or on_its_way
        if self.model.ended == "cancelled" or not too_late:
            assert answer == "cancelled"
            self.model.ended, self.model.cancelled = "cancelled", True
        else:
            assert answer == "too_late"

    def _let_go(self) -> None:
        self.held, self.begun, self.model.outstanding = None, False, False

    @invariant()
    def it_ends_as_the_model_does(self) -> None:
        ended = self.post.ended(self.send)
        assert (ended[0] if ended else None) == self.model.ended

    @invariant()
    def there_is_one_chain_while_it_lasts(self) -> None:
        if not self.model.ended:
            assert len(self.post.chain()) == 1

    @invariant()
    def one_attempt_at_a_time_has_no_outcome(self) -> None:
        c = self.post.channel
        open_ = self.post.rows(
            f"select a.attempt_id from comms.{c.root}_scheduled a"
            f" where a.{c.id_name} = %s and not queues.is_over(a.task_run_id)",
            self.send,
        )
        assert len(open_) <= 1

    def teardown(self) -> None:
        """From wherever it stands, the process comes to its end."""
        for _ in range(2 * RUN_LIMIT):
            if self.model.ended:
                break
            self.supervise(1)
            if self.model.outstanding and not self.held and not self.model.lost:
                self.claim()
            if self.held and not self.begun:
                self.begin()
            if self.held:
                self.the_provider_answers("accepted")
        if self.held:
            self.post.die(self.held)
        self.it_ends_as_the_model_does()
        assert self.model.ended


def test_any_order_of_events_leads_to_the_one_right_end(mail: Post) -> None:
    mail.rows("update comms.setting set run_limit = %s", RUN_LIMIT)
    run_state_machine_as_test(
        lambda: Machine(mail),  # type: ignore[arg-type]
        settings=settings(
            max_examples=80,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
