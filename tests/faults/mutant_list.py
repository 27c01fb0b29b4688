"""The mutants: what each breaks, where, and the scenario that must notice."""

from __future__ import annotations

from dataclasses import dataclass

_FUNCTIONS = "migrations/functions"


@dataclass(frozen=True)
class Mutant:
    name: str
    scenario: str
    edits: tuple[tuple[str, str, str], ...]
    """(file, old text, new text)"""


MUTANTS = (
    Mutant(
        "finish without the fence",
        "s04_the_answer",
        (
            (
                f"{_FUNCTIONS}/queues/finish.sql",
                "where t.id = any (array(select o.id from outcome o)) and t.worker_id = finish.worker_id",
                "where t.id = any (array(select o.id from outcome o))",
            ),
            (
                f"{_FUNCTIONS}/queues/finish.sql",
                "join outcome o on o.id = l.id and o.claim_no = l.claim_no",
                "join outcome o on o.id = l.id",
            ),
        ),
    ),
    Mutant(
        "reclaim by id only",
        "s02_a_lease",
        (
            (
                f"{_FUNCTIONS}/internal/reclaim.sql",
                "order by t.leased_until limit 500 for update skip locked",
                "order by t.leased_until limit 500",
            ),
        ),
    ),
    Mutant(
        "worker's clock for leases",
        "s19",
        (
            (
                "reproq/queue/claim.py",
                "queues.claim($1, $2, $3, $4, $5, $6, $7, $8)",
                "queues.claim($1, $2, $3, to_timestamp($4::float8) - clock_timestamp(), $5, $6, $7, $8)",
            ),
            (
                "reproq/queue/claim.py",
                "scope.prefixes, seconds(lease_s), number(max_tasks)",
                'scope.prefixes, str(__import__("time").time() + lease_s).encode(), number(max_tasks)',
            ),
        ),
    ),
    Mutant(
        "no guard",
        "s04_a_runner",
        (("reproq/executor/guard.py", 'self.at = message.get("at")', "self.at = None"),),
    ),
    Mutant(
        "no local lease deadline",
        "s05",
        (
            (
                "reproq/runner/leases.py",
                "self._ours_ns = int((lease_s - max(1.0, lease_s / 6)) * 1e9)",
                "self._ours_ns = 10**15",
            ),
        ),
    ),
    Mutant(
        "heartbeat on the task connection",
        "s21",
        (
            (
                "reproq/runner/heart.py",
                "        answers = self._ready_line().run(call, "
                "timeout_s=max(1.0, min(self._every_s, self._lease_s / 6)))\n",
                "        from reproq.runner.desk import Errand\n"
                "        box: list[dict[tuple[int, int], str]] = []\n"
                "        told = threading.Event()\n"
                "        errand = Errand(call, lambda found: (box.append(found), told.set()))\n"
                "        self._post(lambda: self._listener.finish_desk.send(errand))\n"
                "        while not told.wait(0.1):\n"
                "            if self._stopping:\n"
                "                return\n"
                "        answers = box[0]\n",
            ),
        ),
    ),
    Mutant(
        "re-run on a commit error",
        "s07",
        (
            (
                "reproq/runner/finishes.py",
                "refused=lambda exc: self._refused(batch, exc))",
                "refused=lambda exc: self._refused(batch, exc), lost=lambda: self._again(batch))",
            ),
            (
                "reproq/runner/finishes.py",
                "    def _answered(",
                "    def _again(self, batch: list[Ended]) -> None:\n"
                "        self._under_way -= len(batch)\n"
                "        for execution, _ in batch:\n"
                "            execution.over = False\n"
                "            self._ended.__self__._stations[-1].ready.append(execution)\n\n"
                "    def _answered(",
            ),
        ),
    ),
    Mutant(
        "release before kill",
        "s15",
        (
            (
                "reproq/runner/drain.py",
                "                self._runner.keeper.kill(child, number)\n",
                "                if not execution.over:\n"
                "                    self._runner.books.give_back([execution])\n"
                "                self._runner.keeper.kill(child, number)\n",
            ),
        ),
    ),
    Mutant(
        "attempt burned on give-back",
        "s15",
        (
            (
                f"{_FUNCTIONS}/internal/put_back.sql",
                "attempt_count = t.attempt_count - 1,",
                "attempt_count = t.attempt_count,",
            ),
        ),
    ),
    Mutant(
        "wait for EOF",
        "s12",
        (
            (
                "reproq/executor/guard.py",
                "        if self._kill_strays(self._leftovers(child)):\n            return\n",
                "        if self._leftovers(child):  # they hold the pipes\n            return\n",
            ),
        ),
    ),
    Mutant(
        "protocol on fd 1",
        "s13",
        (
            ("reproq/executor/child_wire.py", "        os.dup2(2, 1)\n", ""),
            (
                "reproq/executor/output.py",  # which would mend it
                "if os.fstat(1).st_ino == os.fstat(2).st_ino == self._file",
                "if os.fstat(2).st_ino == self._file",
            ),
        ),
    ),
    Mutant(
        "no bound on crashes",
        "s11",
        (
            (
                f"{_FUNCTIONS}/internal/finish_failed.sql",
                "if problem ->> 'snooze_s' is not null then",
                "if problem ->> 'snooze_s' is not null or problem ->> 'kind' in ('killed', 'exited') then",
            ),
            (
                f"{_FUNCTIONS}/internal/finish_failed.sql",
                "least((problem ->> 'snooze_s')::double precision",
                "least(coalesce((problem ->> 'snooze_s')::double precision, 1)",
            ),
        ),
    ),
    Mutant(
        "attempts not counted on reclaim",
        "s04_a_runner",
        (
            (
                f"{_FUNCTIONS}/internal/reclaim.sql",
                "elsif task.attempt_count = task.max_attempts and task.started_at is null and",
                "elsif",
            ),
        ),
    ),
    Mutant(
        "give back by id only",
        "s24",
        (
            (
                f"{_FUNCTIONS}/queues/give_back.sql",
                "where t.id = asked.id and t.claim_no = asked.claim_no and t.worker_id = give_back.worker_id for",
                "where t.id = asked.id for",
            ),
        ),
    ),
    Mutant(
        "heartbeat by id only",
        "s24",
        (
            (
                f"{_FUNCTIONS}/queues/heartbeat.sql",
                "where t.id = any (heartbeat.ids) and t.worker_id = heartbeat.worker_id\n        order",
                "where t.id = any (heartbeat.ids)\n        order",
            ),
            (
                f"{_FUNCTIONS}/queues/heartbeat.sql",
                "join asked a on a.id = l.id and a.claim_no = l.claim_no",
                "join asked a on a.id = l.id",
            ),
        ),
    ),
    Mutant(
        "failure by id only",
        "s04_a_runner",
        (
            (
                f"{_FUNCTIONS}/internal/finish_failed.sql",
                "where t.id = (problem ->> 'id')::bigint and t.claim_no = (problem ->> 'claim_no')::bigint\n"
                "          and t.worker_id = finish_failed.worker_id\n",
                "where t.id = (problem ->> 'id')::bigint\n",
            ),
        ),
    ),
    Mutant(
        "enqueue commits asynchronously",
        "s08",
        (
            (
                f"{_FUNCTIONS}/queues/enqueue_many.sql",
                "    perform internal.check_enqueue(",
                "    perform set_config('synchronous_commit', 'off', true);\n    perform internal.check_enqueue(",
            ),
        ),
    ),
    Mutant(
        "local deadline from the answer",
        "s25",
        (
            (
                "reproq/runner/leases.py",
                "        deadline = sent_ns + self._ours_ns\n",
                "        deadline = boottime_ns() + self._ours_ns\n",
            ),
        ),
    ),
)
