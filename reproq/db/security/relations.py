"""Tables that must not forget, and views that must not tell."""

from __future__ import annotations

from collections.abc import Iterable

from reproq.db.doctor.rule import Finding, Rule, query
from reproq.db.doctor.scene import Scene
from reproq.db.security import shape

# What may hold a payload, a result, or an error that quotes one; and worker ids, which are half of a fence.
SECRET = (
    "payload_json", "result_json", "error_json", "last_error", "detail", "message", "idempotency_key", "limit_key",
    "delete_reason", "spec_hash", "trace",
)  # fmt: skip
_FACTS = r"_(scheduled|started|succeeded|failed|unknown|ended)$"
_TRIGGERS = """
    select t.tgname::text, c.oid::regclass::text, t.tgenabled::text in ('O', 'A'),
           f.oid::regproc::text,
           fn.nspname = any(%(ours)s)
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
    join pg_proc f on f.oid = t.tgfoid join pg_namespace fn on fn.oid = f.pronamespace
    where n.nspname = any(%(ours)s) and not t.tgisinternal order by 1, 2"""
_OPEN = f"""
    select c.oid::regclass::text, w.event
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    cross join (values ('update', 16), ('truncate', 32)) as w(event, bit)
    where n.nspname = any(%(ours)s) and c.relkind in ('r', 'p')
      and (c.relname ~ '{_FACTS}' or (n.nspname = 'queues' and c.relname in ('task_events', 'error')))
      and not exists (select from pg_trigger t where t.tgrelid = c.oid and not t.tgisinternal
                      and t.tgtype & 2 = 2 and t.tgtype & w.bit = w.bit and t.tgenabled in ('O', 'A'))
    order by 1"""
_VIEWS = """
    select distinct format('%%s shows %%s of %%s', v.oid::regclass, a.attname, b.oid::regclass),
           format('revoke select on %%s from %%I;', v.oid::regclass, %(reader)s::text)
    from pg_class v join pg_namespace n on n.oid = v.relnamespace
    join pg_rewrite w on w.ev_class = v.oid
    join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
           and d.refclassid = 'pg_class'::regclass and d.refobjsubid > 0
    join pg_class b on b.oid = d.refobjid
    join pg_attribute a on a.attrelid = b.oid and a.attnum = d.refobjsubid
    where n.nspname = any(%(ours)s) and v.relkind in ('v', 'm')
      and exists (select from aclexplode(v.relacl) g join pg_roles r on r.oid = g.grantee
             where r.rolname = %(reader)s::text)
      and (a.attname = any(%(secret)s) or a.atttypid in ('json'::regtype, 'jsonb'::regtype)
           or (select y.typbasetype from pg_type y where y.oid = a.atttypid) in ('json'::regtype, 'jsonb'::regtype))
    order by 1"""
_RULES = """
    select format('rule %%I rewrites statements on %%s', r.rulename, c.oid::regclass), format('drop rule %%I on %%s;',
           r.rulename, c.oid::regclass)
    from pg_rewrite r join pg_class c on c.oid = r.ev_class join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = any(%(ours)s) and r.rulename <> '_RETURN' order by 1"""


def _triggers(scene: Scene) -> Iterable[Finding]:
    """As their migration made them: event, level, WHEN and function; and enabled."""
    yield from shape.compare(scene, "triggers")
    for name, table, on, _, _ in scene.ask(_TRIGGERS):
        if not on:
            fix = f'alter table {table} enable trigger "{name}";'
            yield Finding(f"trigger {name} on {table} is disabled", fix)


def _append_only(scene: Scene) -> Iterable[Finding]:
    """A trigger of the migrations is put back, a table that isn't theirs gets one."""
    for table, event in scene.ask(_OPEN):
        known = [line for line in shape.golden().values() if line.kind == "trigger" and _refuses(line, table, event)]
        fixes = [f"drop trigger if exists {line.name}; {line.definition};" for line in known]
        again = f"create or replace trigger facts_stay before update or delete or truncate on {table}"
        fix = fixes[0] if fixes else f"{again} for each statement execute function internal.facts_stay();"
        yield Finding(f"{table} can be rewritten: no trigger refuses {event}", fix)


def _refuses(line: shape.Line, table: str, event: str) -> bool:
    events = line.definition.partition(f" ON {table} ")
    return bool(events[1]) and event.upper() in events[0] and "BEFORE" in events[0] and "STATEMENT" in events[2]


def _foreign(scene: Scene) -> Iterable[Finding]:
    """A trigger of somebody else's would run as the owner, inside our functions."""
    for name, table, _, function, ours in scene.ask(_TRIGGERS):
        if not ours:
            yield Finding(f"trigger {name} on {table} runs {function}", f'drop trigger "{name}" on {table};')
    yield from query(_RULES)(scene)


def _views(scene: Scene) -> Iterable[Finding]:
    return [Finding(what, fix) for what, fix in scene.ask(_VIEWS, secret=list(SECRET))]


RULES = (
    Rule(
        "relations.triggers",
        "every trigger is as its migration made it, and enabled",
        "pg_trigger and migrations/shape.txt",
        _triggers,
    ),
    Rule(
        "relations.append_only",
        "events, errors and facts refuse UPDATE and TRUNCATE",
        "pg_trigger.tgtype, tgenabled",
        _append_only,
    ),
    Rule(
        "relations.foreign_code",
        "nobody else's trigger or rule runs on Reproq's tables",
        "pg_trigger.tgfoid, pg_rewrite",
        _foreign,
    ),
    Rule(
        "relations.redacted",
        "what the reader sees holds no payload, result or error text",
        "pg_depend of the views' rules",
        _views,
    ),
)
