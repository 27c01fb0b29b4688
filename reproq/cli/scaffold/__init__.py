"""`reproq process new`: a working process under another name. The files beside this one are that process."""

from __future__ import annotations

import re
from pathlib import Path

from reproq.db.migration.files import SCHEMAS
from reproq.models.errors import ReproqError

EXAMPLE = "invoice_reminder"
LONGEST = 40  # its longest function, count_…_task_scheduled, has 63 characters at most
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED = frozenset(
    """all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both
    case cast char character check coalesce collate collation column concurrently constraint create cross
    current_catalog current_date current_role current_schema current_time current_timestamp current_user dec
    decimal default deferrable desc distinct do else end except exists extract false fetch float for foreign
    freeze from full grant greatest group grouping having ilike in initially inner inout int integer intersect
    interval into is isnull join json json_array json_arrayagg json_exists json_object json_objectagg json_query
    json_scalar json_serialize json_table json_value lateral leading least left like limit localtime
    localtimestamp merge_action national natural nchar none normalize not notnull null nullif numeric offset on
    only or order out outer overlaps overlay placing position precision primary real references returning right
    row select session_user setof similar smallint some substring symmetric system_user table tablesample then
    time timestamp to trailing treat trim true union unique user using values varchar variadic verbose when
    where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi
    xmlroot xmlserialize xmltable""".split()  # noqa: SIM905
)


class ScaffoldRefused(ReproqError):
    """The files can't be written; the message says why and what to do."""


def write(name: str, folder: str | Path) -> list[Path]:
    """Write the process and its test; returns their paths. Nothing is ever overwritten."""
    _check(name)
    folder = Path(folder)
    if there := sorted(folder.glob(f"[0-9]*_{name}.sql")):
        raise ScaffoldRefused(f"{there[0]} is there already: choose another name, or change that process in a new file")
    paths = {
        folder / f"{_next_number(folder):04}_{name}.sql": f"{EXAMPLE}.sql",
        folder / f"test_{name}.py": f"test_{EXAMPLE}.py.txt",
    }
    texts = {path: _text(source, name, str(folder)) for path, source in paths.items()}
    if there := [path for path in texts if path.exists()]:
        raise ScaffoldRefused(f"{there[0]} is there already, and nothing was written: choose another name")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as problem:
        raise ScaffoldRefused(f"{problem.filename} can't be written: {problem.strerror}") from None
    return list(texts)


def _check(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise ScaffoldRefused(
            f"{name!r:.80} can't be a process's name: use up to {LONGEST} of a-z, 0-9 and _, starting with a letter"
        )
    ours = name in (*SCHEMAS, "public", "information_schema") or name.startswith("pg_")
    if ours or name in _RESERVED or name.endswith(("_task", "_supervisor")):
        raise ScaffoldRefused(f"{name} means something else already: choose a name such as {EXAMPLE}")


def _next_number(folder: Path) -> int:
    numbers = [int(found[0]) for path in folder.glob("*.sql") if (found := re.match(r"\d{1,9}(?=_)", path.name))]
    return max(numbers, default=0) + 1


def _text(source: str, name: str, folder: str) -> str:
    text = Path(__file__).with_name(source).read_text("utf-8")
    return text.replace("db/processes", folder).replace(EXAMPLE, name)
