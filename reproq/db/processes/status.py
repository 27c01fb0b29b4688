"""How a process stands, for the login that started it: the process's own function says it.

    <schema>.<process>_status(bigint) returns jsonb, of which null means: not there, or not yours

It is over when `ended_at` is set, or `state` is one of the outcomes that every process knows.
"""

from psycopg import sql

from reproq.db.line import Call, Rows

OUTCOMES = frozenset({"succeeded", "failed", "unknown", "run_limit", "deadline", "cancelled"})
# Names come out of the catalog, never from whoever asks.
_FUNCTIONS = b"""
    select format('%s.%s', n.nspname, left(c.relname, -5)), n.nspname, p.proname
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    join pg_proc p on p.pronamespace = n.oid and p.proname = left(c.relname, -5) || '_status' and p.prokind = 'f'
         and p.pronargs = 1 and p.proargtypes[0] = 'bigint'::regtype and p.prorettype = 'jsonb'::regtype
         and not p.proretset
    where c.relkind = 'r' and c.relname like '%\\_task'
      and exists (select from pg_proc s where s.pronamespace = n.oid
                  and s.proname = left(c.relname, -5) || '_supervisor')
      and has_schema_privilege(n.oid, 'USAGE') and has_function_privilege(p.oid, 'EXECUTE')
"""


def status_functions() -> Call:
    """Answers process → quoted name of the function that tells how one stands, for those this login may ask about."""
    return Call(_FUNCTIONS, (), _functions)


def _functions(rows: Rows) -> dict[str, str]:
    texts = [[(value or b"").decode() for value in row] for row in rows]
    return {name: sql.Identifier(schema, function).as_string() for name, schema, function in texts}
