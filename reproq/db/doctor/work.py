"""The work itself: what waits behind a pause, schedules, dead letters, processes, the outbox."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reproq.db.doctor.rule import Finding, Rule, Severity
from reproq.db.doctor.scene import Scene

OLD_S = 600
MANY_DEAD = 10  # in an hour; fewer are everyday

_PAUSED = """
    select format('queue %%s is paused, and its oldest ready task has waited for %%s', s.queue_name, x.waited),
           format('reproq queues resume %%s', s.queue_name)
    from queues.queue_settings s cross join lateral (
        select date_trunc('second', now() - min(l.run_after)) as waited
        from internal.lanes_between(s.queue_name, '', '~') l where l.run_after <= now()) x
    where s.paused and x.waited >= %(old)s * interval '1 second'
    union all
    select format('type %%s is paused, and its oldest ready task has waited for %%s', y.task_type, x.waited),
           format('reproq queues resume %%s --type', y.task_type)
    from queues.task_types y cross join lateral (
        select date_trunc('second', now() - min(l.run_after)) as waited
        from internal.queues_with_work(null) q cross join lateral internal.lanes_between(q, '', '~') l
        where l.task_type = y.task_type and l.run_after <= now()) x
    where y.paused and x.waited >= %(old)s * interval '1 second'
    order by 1"""
_SCHEDULES = """
    select format('schedule %%s failed: %%s%%s', s.schedule_name, s.last_error,
                  case when s.enabled then '' else '; it is disabled' end),
           format('reproq schedules put %%s …  # mend it; then reproq schedules resume %%s', s.schedule_name,
                  s.schedule_name)
    from queues.schedules s where s.last_error is not null
    union all
    select format('schedule %%s has a time zone that this server doesn''t know: %%s', s.schedule_name, s.time_zone),
           format('reproq schedules put %%s %%s --cron %%L --time-zone Europe/Berlin  # one of pg_timezone_names',
                  s.schedule_name, s.task_type, s.cron)
    from queues.schedules s where s.cron is not null and not exists (
        select from pg_timezone_names z where lower(z.name) = lower(s.time_zone))
    union all
    select format('schedule %%s was due %%s ago and hasn''t fired', s.schedule_name,
                  date_trunc('second', now() - s.next_slot)),
           'start a worker: one of them fires schedules (see workers.leader)'
    from queues.schedules s where s.enabled and s.next_slot < now() - %(old)s * interval '1 second'
    order by 1"""
# The newest failures only: enough to see whether they grow.
_DEAD = """
    select x.task_type, count(*) filter (where x.ago < interval '1 hour'), count(*)
    from (select t.task_type::text as task_type, now() - t.completed_at as ago from queues.task_runs t
          where t.status = 'FAILED' and not t.supervised and t.deleted_at is null
          order by t.id desc limit 10000) x
    where x.ago < interval '1 day' group by x.task_type order by 3 desc, 1"""
_SUPERVISED = """
    select x.task_type, count(*) from (
        select t.task_type::text as task_type, now() - t.completed_at as ago from queues.task_runs t
        where t.status = 'FAILED' and t.supervised and t.deleted_at is null order by t.id desc limit 10000) x
    where x.ago < interval '1 day' group by x.task_type order by 2 desc, 1"""
_STUCK = """
    select format('process %%s has been open for %%s, and no task of its supervisor waits or runs',
                  p.payload ->> 'db_function', date_trunc('second', clock_timestamp() - p.opened_at)),
           'start a worker: one of them brings supervisors back within a minute; or select comms.resume_supervisors();'
    from internal.open_process p
    where p.opened_at < clock_timestamp() - %(old)s * interval '1 second' and not exists (
        select from queues.task_runs t where t.spec_hash = p.spec_hash and t.deleted_at is null
          and t.status in ('PENDING', 'RETRYING', 'RUNNING') and t.unique_among = 'waiting')
    order by p.opened_at limit 100"""
_OUTBOX = """
    select format('%%s events wait for sink %%s, the oldest for %%s%%s', count(*), d.sink,
                  date_trunc('second', now() - min(d.next_at)),
                  (select case when s.enabled then '' else '; it is disabled: ' || coalesce(s.disabled_reason, '?') end
                   from queues.sinks s where s.sink_name = d.sink)),
           'reproq dispatch  # a dispatcher has to run; if one does, see its log'
    from queues.outbox_delivery d
    where d.state = 'waiting' and d.next_at < now() - %(old)s * interval '1 second' group by d.sink
    union all
    select format('%%s events are parked for sink %%s: their attempts are used up', count(*), d.sink),
           format('reproq dispatch parked %%s  # why; then reproq dispatch replay %%s', d.sink, d.sink)
    from queues.outbox_delivery d where d.state = 'parked' group by d.sink
    order by 1"""


def _asked(statement: str) -> Callable[[Scene], Iterable[Finding]]:
    def find(scene: Scene) -> Iterable[Finding]:
        if scene.installed:
            for what, fix in scene.look(statement, old=OLD_S):
                yield Finding(what, fix)

    return find


def _dead(scene: Scene) -> Iterable[Finding]:
    for task_type, last_hour, last_day in scene.look(_DEAD) if scene.installed else ():
        grows = last_hour >= MANY_DEAD and last_hour * 24 > last_day * 2
        yield Finding(
            f"{last_day} dead letters of {task_type} within a day, {last_hour} of them within the last hour"
            + (": they grow" if grows else ""),
            f"reproq tasks list --status FAILED --type {task_type}  # why; then reproq tasks replay ID",
            Severity.WARNING if grows else Severity.NOTE,
        )


def _supervised(scene: Scene) -> Iterable[Finding]:
    for task_type, count in scene.look(_SUPERVISED) if scene.installed else ():
        yield Finding(
            f"{count} tasks of processes ({task_type}) failed within a day; their supervisors decide what follows",
            "reproq process list --state open  # and reproq process show … for one of them",
        )


RULES = (
    Rule(
        "work.paused",
        "nothing ready waits behind a pause for long",
        "queues.queue_settings, queues.task_types, the claim index",
        _asked(_PAUSED),
        severity=Severity.WARNING,
    ),
    Rule(
        "work.schedules",
        "schedules fire, without errors",
        "queues.schedules, pg_timezone_names",
        _asked(_SCHEDULES),
    ),
    Rule("work.dead_letters", "dead letters don't grow", "the newest FAILED tasks", _dead, severity=Severity.WARNING),
    Rule(
        "work.supervised",
        "tasks of processes succeed",
        "the newest FAILED tasks of supervisors and channels",
        _supervised,
        severity=Severity.NOTE,
    ),
    Rule(
        "work.processes",
        "every open process has a supervisor",
        "internal.open_process against queues.task_runs",
        _asked(_STUCK),
    ),
    Rule(
        "work.outbox",
        "the outbox's events reach their sinks",
        "queues.outbox_delivery, queues.sinks",
        _asked(_OUTBOX),
        severity=Severity.WARNING,
    ),
)
