"""Functions that run as somebody else than their caller, and what they call: they mean the same in every session."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reproq.db.doctor.rule import Finding, Rule, query
from reproq.db.doctor.scene import Scene
from reproq.db.security import shape

PATH = "search_path=pg_catalog, pg_temp"
DISPATCHERS = {"internal.run_function"}  # the one place where a name that came as data becomes code
# How a statement is planned, never what it means.
_PLANNING = re.compile(r"(search_path|jit|enable_\w+|plan_cache_mode|\w+_collapse_limit|work_mem|max_parallel_\w+)=")
# From left to right, so that a quote in a comment, or a comment in a quoted name, opens nothing.
_NOT_CODE = re.compile(
    r"""--[^\n]*|/\*.*?\*/|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|\be'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'"""
    r"""|"(?P<name>(?:[^"]|"")*)\"""",
    re.DOTALL | re.IGNORECASE,
)
_DYNAMIC = re.compile(
    r"\bexecute\b(?!\s*''\s*;)|\bdo\s+(?:language\s+\w+\s+)?''"
    r"|\b(?:(?:query|table|cursor|schema|database)_to_xml\w*|ts_stat|dblink\w*)\s*\(",
    re.IGNORECASE,
)
_FUNCTIONS = """
    select format('%%I.%%I', n.nspname, p.proname), p.oid::regprocedure::text,
           coalesce(pg_get_function_sqlbody(p.oid), p.prosrc), p.prosecdef,
           coalesce(p.proconfig, '{}'),
           n.nspname = any(%(ours)s)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace
    where n.nspname = any(%(watched)s) and p.prokind <> 'a' order by 2"""
_OWNERS = """
    select format('%%s runs as %%I, %%s', p.oid::regprocedure, r.rolname,
                  case when n.nspname = any(%(ours)s) then format('not as %%I', %(owner)s::text)
                         when r.rolsuper then 'a superuser' else 'an administrator' end),
           case when n.nspname = any(%(ours)s)
                then format('alter routine %%s owner to %%I;', p.oid::regprocedure, %(owner)s::text)
                else format('alter routine %%s security invoker;  -- or give it to a role without login and might',
                       p.oid::regprocedure) end
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_roles r on r.oid = p.proowner
    where p.prosecdef and (
        (n.nspname = any(%(ours)s) and r.rolname <> %(owner)s::text)
        or (n.nspname = any(%(theirs)s) and (r.rolsuper or r.rolcreaterole or r.rolcreatedb or r.rolbypassrls
                                             or r.rolreplication or r.rolname = %(owner)s::text)))
    order by 1"""
_LANGUAGES = """
    select format('%%s is written in %%s', p.oid::regprocedure, l.lanname), format('drop routine %%s;',
           p.oid::regprocedure)
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace join pg_language l on l.oid = p.prolang
    where (n.nspname = any(%(ours)s) and l.lanname not in ('sql', 'plpgsql'))
       or (n.nspname = any(%(theirs)s) and p.prosecdef and not l.lanpltrusted and l.lanname <> 'sql')
    order by 1"""
_CREATABLE = """
    select n.nspname::text from pg_namespace n
    where has_schema_privilege('public', n.oid, 'CREATE')
       or exists (select from pg_roles r where r.rolname = any(%(service)s) and has_schema_privilege(r.oid, n.oid,
              'CREATE'))"""


def _paths(scene: Scene) -> Iterable[Finding]:
    """Ours all have the same; a user's may name schemas in which nobody of ours can create a trap."""
    traps = {row[0] for row in scene.ask(_CREATABLE)}
    for _, signature, _, definer, settings, ours in scene.ask(_FUNCTIONS):
        if not (ours or definer):
            continue
        wrong = _wrong_path(next((s for s in settings if s.startswith("search_path=")), None), ours, traps)
        if wrong:
            yield Finding(f"{signature} {wrong}", f"alter routine {signature} set search_path = pg_catalog, pg_temp;")
    scene.admit(_FUNCTIONS)


def _wrong_path(setting: str | None, ours: bool, traps: set[str]) -> str | None:
    if setting is None:
        return "finds its names by the caller's search_path"
    if ours:
        return None if setting == PATH else f"has {setting}"
    schemas = [name.strip().strip('"') for name in setting.partition("=")[2].split(",")]
    if schemas[-1] != "pg_temp":
        return f"looks into the caller's temporary schema first: {setting}"
    open_ones = [name for name in schemas if name in traps or name == "$user"]
    return f"looks into {', '.join(open_ones)}, where its callers may create" if open_ones else None


def _dynamic(scene: Scene) -> Iterable[Finding]:
    for name, signature, source, definer, _, ours in scene.ask(_FUNCTIONS):
        if (ours or definer) and name not in DISPATCHERS and _DYNAMIC.search(_code(source)):
            known = ("function", signature) in shape.golden()
            drop = shape.REPAIR if known else f"drop routine {signature};"
            fix = drop if ours else f"alter routine {signature} security invoker;  -- or write the statement out"
            yield Finding(f"{signature} makes SQL out of text", fix)
    scene.admit(_FUNCTIONS)


def _code(source: str) -> str:
    """Without comments and literals; a quoted name stands as it is read, but is never the word EXECUTE."""

    def shown(found: re.Match[str]) -> str:
        name = found["name"]
        return "''" if name is None else "" if name.lower() == "execute" or not name.isidentifier() else name

    return _NOT_CODE.sub(shown, source)


def _settings(scene: Scene) -> Iterable[Finding]:
    for _, signature, _, _, settings, ours in scene.ask(_FUNCTIONS):
        for setting in settings if ours else ():
            if not _PLANNING.match(setting):
                fix = f"alter routine {signature} reset {setting.partition('=')[0]};"
                yield Finding(f"{signature} runs with {setting}", fix)


RULES = (
    Rule(
        "definers.search_path",
        "Reproq's functions, and definer functions of allowed schemas, pin their search_path, pg_temp last",
        "pg_proc.proconfig",
        _paths,
    ),
    Rule(
        "definers.owner",
        "definer functions run as the owner, those of allowed schemas as no administrator",
        "pg_proc.proowner",
        query(_OWNERS),
    ),
    Rule(
        "definers.dynamic_sql",
        "no function but the dispatcher makes SQL out of text",
        "pg_proc.prosrc without comments and literals",
        _dynamic,
    ),
    Rule(
        "definers.language",
        "they are written in SQL and PL/pgSQL, those of allowed schemas in trusted languages",
        "pg_proc.prolang",
        query(_LANGUAGES),
    ),
    Rule(
        "definers.settings",
        "none runs with a setting that changes what a statement means",
        "pg_proc.proconfig",
        _settings,
    ),
    Rule(
        "definers.text",
        "each function is what its migration made, and there is no other",
        "pg_proc and migrations/shape.txt",
        lambda scene: shape.compare(scene, "functions"),
    ),
)
