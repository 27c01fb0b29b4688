"""Dead rows and swollen indexes, and an autovacuum that is off or can't keep up."""

from __future__ import annotations

from collections.abc import Iterable

from reproq.db.doctor.rule import Finding, Rule, Severity, query
from reproq.db.doctor.scene import Scene

DEAD_ROWS = 50_000  # fewer are nothing to speak of
INDEX_BYTES = 8 << 20  # nor are smaller indexes
ENTRY_BYTES = 400  # an entry that lives needs less, with the room that a B-tree leaves

_DEAD = """
    select format('%%s has %%s dead rows beside %%s live ones; autovacuum %%s', t.relid::regclass, t.n_dead_tup,
                  t.n_live_tup, case when t.last_autovacuum is null then 'has never come' else
                      format('last came %%s ago', date_trunc('second', clock_timestamp() - t.last_autovacuum)) end),
           format('vacuum (analyze) %%s;  -- in vain while the horizon is held back: see horizon.*', t.relid::regclass)
    from pg_stat_all_tables t
    where t.schemaname = any(%(ours)s) and t.n_dead_tup > %(dead)s and t.n_dead_tup > t.n_live_tup / 2 order by 1"""
# Statistics of a table that was never vacuumed or analyzed say nothing about its indexes.
_INDEXES = """
    select format('index %%s takes %%s for about %%s entries', c.oid::regclass, pg_size_pretty(s.bytes),
                  greatest(c.reltuples, 0)::bigint),
           format('reindex index concurrently %%s;', c.oid::regclass)
    from pg_class c join pg_index i on i.indexrelid = c.oid join pg_class t on t.oid = i.indrelid
    join pg_namespace n on n.oid = c.relnamespace
    cross join lateral (select pg_relation_size(c.oid) as bytes) s
    where n.nspname = any(%(ours)s) and t.reltuples >= 0 and s.bytes > %(bytes)s
      and s.bytes > %(entry)s * greatest(c.reltuples, 1) order by 1"""
_AUTOVACUUM = """
    select format('%%s is off: dead rows pile up', s.name),
           format('alter system set %%s = on; select pg_reload_conf();', s.name)
    from pg_settings s where s.name in ('autovacuum', 'track_counts') and s.setting = 'off'
    union all
    select format('autovacuum is off for %%s', c.oid::regclass),
           format('alter table %%s reset (autovacuum_enabled);', c.oid::regclass)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace cross join unnest(c.reloptions) o
    where n.nspname = any(%(ours)s) and o in ('autovacuum_enabled=false', 'autovacuum_enabled=off')
    order by 1"""


def _dead(scene: Scene) -> Iterable[Finding]:
    for what, fix in scene.ask(_DEAD, dead=DEAD_ROWS):
        yield Finding(what, fix)


def _indexes(scene: Scene) -> Iterable[Finding]:
    for what, fix in scene.ask(_INDEXES, bytes=INDEX_BYTES, entry=ENTRY_BYTES):
        yield Finding(what, fix)


RULES = (
    Rule(
        "bloat.autovacuum",
        "autovacuum is on, for Reproq's tables too",
        "autovacuum, track_counts, pg_class.reloptions",
        query(_AUTOVACUUM),
    ),
    Rule(
        "bloat.rows",
        "most rows of each table are alive",
        "n_dead_tup and last_autovacuum of pg_stat_all_tables",
        _dead,
        severity=Severity.WARNING,
    ),
    Rule(
        "bloat.indexes",
        "each index, that of the claim above all, has the size of what it holds",
        "pg_relation_size() and reltuples",
        _indexes,
        severity=Severity.WARNING,
    ),
)
