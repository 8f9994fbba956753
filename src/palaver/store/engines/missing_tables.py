"""Finds missing tables and indexes, and creates those that can be filled again.

Search indexes, marks and vectors are derived data. They are created empty and filled from texts and transcripts. Any
other missing table means lost data: it is reported, and never created empty.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import orjson

from palaver.store.engines import named_sql
from palaver.store.engines.database import Reader

if TYPE_CHECKING:
    import apsw

DERIVED_TABLES = ("vectors", "transcript_marks", "search_sessions", "mcp_sessions")
"""Tables outside the search index that can be filled from other data, or that may begin empty."""
SEARCH_INDEX = "passage_"
"""Prefix of the tables of the search index."""
INDEX_TABLES = ("passage_index", "passage_trigrams")
"""The full-text index and the substring index."""
LINKED_TABLES = ("passage_totals", "passage_parts", "passage_index")
"""Tables of PostgreSQL that depend on each other. They are created together."""
SUBSTRING_TABLES = ("passage_trigrams", "passage_runs")
"""The substring index of PostgreSQL. Its tables are created together too."""

_CREATE = re.compile(r"CREATE (TABLE|(?:UNIQUE )?INDEX) (\w+)(?: ON (\w+))?")
_ALTER = re.compile(r"(?:ALTER (?:TABLE|INDEX)|CREATE TRIGGER \w+ AFTER \w+ ON) (\w+)")
_DROP = re.compile(r"DROP (?:TABLE|INDEX) (?:IF EXISTS )?(\w+)")


@dataclass
class SchemaPart:
    """A table or an index of the newest schema, with the statements that create it."""

    name: str
    table: str
    is_index: bool
    statements: list[str]

    @property
    def is_derived(self) -> bool:
        return self.is_index or self.table.startswith(SEARCH_INDEX) or self.table in DERIVED_TABLES


def missing(read: Reader, kind: str) -> list[str]:
    """The names of tables and indexes that are missing."""
    expected = parts(read.connection.dialect.name, kind).keys()
    there = {row["name"] for row in read.all("schema_names", names=orjson.dumps(list(expected)).decode())}
    return sorted(expected - there)


def is_derived(dialect: str, kind: str, name: str) -> bool:
    return parts(dialect, kind)[name].is_derived


def parts(dialect: str, kind: str) -> dict[str, SchemaPart]:
    """The tables and indexes of the newest schema, by name."""
    return _sqlite_parts(kind) if dialect == "sqlite" else _postgres_parts(kind)


def restart_substring_index() -> str:
    """The statement that makes the substring index be filled again. It is the same for both engines."""
    return named_sql.load("sqlite")["restart_substring_index"]


# SQLite


@cache
def _sqlite_parts(kind: str) -> dict[str, SchemaPart]:
    """The tables and indexes of an empty database after all migrations."""
    import apsw

    empty = apsw.Connection(":memory:")
    try:
        for _, sql in named_sql.migrations("sqlite", kind):
            empty.execute(sql)
        rows = empty.execute(named_sql.load("sqlite")["schema_parts"]).fetchall()
    finally:
        empty.close()
    found = [SchemaPart(str(name), str(table), type == "index", [str(sql)]) for name, table, type, sql in rows if sql]
    return {part.name: part for part in found if not part.name.startswith("sqlite_")}


def create_in_sqlite(raw: apsw.Connection, kind: str, gone: list[str]) -> list[str]:
    """Create the missing tables and indexes of derived data, empty. Returns their names."""
    expected = _sqlite_parts(kind)
    copies = [name for name in gone if expected[name].is_derived]
    virtual = [part for part in expected.values() if part.statements[0].startswith("CREATE VIRTUAL TABLE")]
    damaged = [part for part in virtual if any(_belongs(name, part.name) for name in copies)]
    with raw:
        for part in damaged:
            drop_virtual(raw, part.name)
        for part in damaged:
            raw.execute(part.statements[0])
        there = {str(name) for (name,) in raw.execute(named_sql.load("sqlite")["schema_names"])}
        for name in copies:
            if name not in there and expected[name].table in there | set(copies):
                raw.execute(expected[name].statements[0])
        if any(part.name in INDEX_TABLES for part in damaged):
            tune_index(raw)
            raw.execute(restart_substring_index())
    return copies


def _belongs(name: str, table: str) -> bool:
    """Is this the virtual table, or one of the tables that hold its data?"""
    return name == table or (name.startswith(f"{table}_") and table in INDEX_TABLES)


def drop_virtual(raw: apsw.Connection, table: str) -> None:
    """Drop a virtual table, even if some of the tables that hold its data are missing."""
    import apsw

    try:
        raw.execute(f"DROP TABLE IF EXISTS {table}")
    except apsw.Error:
        raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        raw.execute("PRAGMA writable_schema = ON")
        raw.execute("DELETE FROM sqlite_schema WHERE name = ?", (table,))
        raw.execute("PRAGMA writable_schema = RESET")
        rows = raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        for (name,) in rows:
            if _belongs(str(name), table):
                raw.execute(f"DROP TABLE {name}")


def tune_index(raw: apsw.Connection) -> None:
    """Apply the settings of the indexes again. They are lines of the migrations."""
    for _, sql in named_sql.migrations("sqlite", "workspace"):
        for line in re.findall(rf"^INSERT INTO (?:{'|'.join(INDEX_TABLES)}) .*;$", sql, re.MULTILINE):
            raw.execute(line)


# PostgreSQL


@cache
def _postgres_parts(kind: str) -> dict[str, SchemaPart]:
    """The tables and indexes that the migrations create and no later one drops."""
    found: dict[str, SchemaPart] = {}
    for _, sql in named_sql.migrations("postgres", kind):
        bare = re.sub(r"--[^\n]*", "", sql)
        for statement in (piece.strip() for piece in re.split(r";\s*\n", bare)):
            if made := _CREATE.match(statement):
                name, table = made[2], made[3] or made[2]
                found[name] = SchemaPart(name, table, made[1] != "TABLE", [statement])
            elif changed := _ALTER.match(statement):
                if part := found.get(changed[1]):
                    part.statements.append(statement)
            elif dropped := _DROP.match(statement):
                found = {name: part for name, part in found.items() if dropped[1] not in (name, part.table)}
    return found


def creation_for_postgres(kind: str, gone: list[str]) -> tuple[list[str], list[str]]:
    """The names of missing derived tables and indexes, and the statements that create them, tables first."""
    expected = _postgres_parts(kind)
    before = list[str]()
    for together in (LINKED_TABLES, SUBSTRING_TABLES):
        if any(name in together for name in gone):
            before.append(f"DROP TABLE IF EXISTS {', '.join(together)} CASCADE")
            gone = sorted({*gone, *(name for name, part in expected.items() if part.table in together)})
    copies = [expected[name] for name in gone if expected[name].is_derived]
    lost = {expected[name].table for name in gone if not expected[name].is_index}
    made = {part.name for part in copies if not part.is_index}
    copies = [part for part in copies if part.name in made or part.table in made or part.table not in lost]
    copies.sort(key=lambda part: part.is_index)
    statements = before + [statement for part in copies for statement in part.statements]
    if "passage_trigrams" in made:
        statements.append(restart_substring_index())
    return sorted(part.name for part in copies), statements
