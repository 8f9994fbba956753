"""Loads SQL statements from files, by name, and the list of migrations.

Both engines share `sql/*.sql`. The files in `sql/<dialect>/` are for one engine. A shared statement has a macro in
braces for each thing that the engines write differently.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

_MACROS = {
    "sqlite": {
        r"\{ids\}": "SELECT value FROM json_each(:ids)",
        r"\{rows\}": "json_each(CAST(:rows AS TEXT))",
        r"\{int ([^{}]+)\}": r"\1",
        r"\{json (\S+) (\w+)\}": r"json_extract(\1, '$.\2')",
        r"\{indexed (\S+)\}": r"EXISTS (SELECT 1 FROM passage_index_docsize i WHERE i.id = \1)",
        r"\{in order\}": "CROSS",
    },
    "postgres": {
        r"\{ids\}": "SELECT CAST(value AS bigint) FROM jsonb_array_elements_text(CAST(:ids AS jsonb))",
        r"\{rows\}": "json_array_elements(CAST(:rows AS json))",
        r"\{int ([^{}]+)\}": r"CAST(\1 AS bigint)",
        r"\{json (\S+) (\w+)\}": r"(CAST(\1 AS jsonb) ->> '\2')",
        r"\{indexed (\S+)\}": r"EXISTS (SELECT 1 FROM passage_index i WHERE i.passage_id = \1)",
        r"\{in order\}": "",
    },
}
"""The macros are: ids in a JSON array; rows as JSON arrays, each named `value`; a number in one of these; a value
of a JSON object; whether a passage is in the index; and a join in the order in which it is written."""
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_LIST = re.compile(r"\bjson_each\((:[a-z_]+)\)")
_NAME = re.compile(r"^-- name: (\w+).*$", re.MULTILINE)


@cache
def load(dialect: str) -> dict[str, str]:
    """All statements for an engine, by name. A file is split at its `-- name:` lines."""
    folder = files("palaver.store") / "sql"
    found: dict[str, str] = {}
    places = [place for part in (folder, folder / dialect) for place in part.iterdir() if place.name.endswith(".sql")]
    for place in sorted(places, key=lambda place: place.name):
        own = {name: translated(body, dialect) for name, body in statements(place).items()}
        assert own.keys().isdisjoint(found), f"{place.name} repeats the names {own.keys() & found.keys()}"
        found |= own
    return found


def statements(place: Traversable) -> dict[str, str]:
    """The statements of a file, by name."""
    parts = _NAME.split(place.read_text("utf-8"))[1:]
    return {name: body.strip().rstrip(";") for name, body in zip(parts[::2], parts[1::2], strict=True)}


def translated(sql: str, dialect: str) -> str:
    """A statement without macros. For PostgreSQL, parameters and lists of texts are in the form that psycopg needs."""
    for macro, meaning in _MACROS[dialect].items():
        sql = re.sub(macro, meaning, sql)
    if dialect == "postgres":
        sql = _LIST.sub(r"jsonb_array_elements_text(CAST(\1 AS jsonb))", sql)
        sql = _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%"))
    return sql


@cache
def migrations(dialect: str, place: str) -> list[tuple[int, str]]:
    """The migrations in order, with their numbers: `sql/<dialect>/<place>/0001_….sql`. The list only grows."""
    folder = files("palaver.store") / "sql" / dialect / place
    steps = sorted((p for p in folder.iterdir() if p.name.endswith(".sql")), key=lambda p: p.name)
    return [(int(p.name[:4]), p.read_text("utf-8")) for p in steps]
