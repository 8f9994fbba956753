"""Tables and indexes that should be in a database and are not.

Some of them hold nothing of their own: search indexes, marks, vectors. Those are made again, empty, and are filled from
the texts and the transcripts. A missing table of any other kind is a loss; it is reported and never made up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from palaver.store.engines import named_sql
from palaver.store.engines.database import Reader

if TYPE_CHECKING:
    import apsw

COPIES = ("vectors", "transcript_marks")
"""Tables beside those of the search index that can be made again from other data."""
SEARCH_INDEX = "passage_"
"""How the tables of the search index are called."""
INDEX_TABLES = ("passage_index", "passage_trigrams")
TOGETHER = ("passage_totals", "passage_parts", "passage_index")
"""Tables of PostgreSQL that say of each other what they hold: they are made again together."""

MARK_PARTS = (
    "INSERT INTO counters (name, value) SELECT 'parts', 0 "
    "WHERE EXISTS (SELECT 1 FROM documents WHERE source = 'archive') ON CONFLICT (name) DO UPDATE SET value = 0"
)
"""Substrings of imported messages are taken into their index again, from the first message on."""

_MAKES = re.compile(r"CREATE (TABLE|(?:UNIQUE )?INDEX) (\w+)(?: ON (\w+))?")
_CHANGES = re.compile(r"(?:ALTER TABLE|CREATE TRIGGER \w+ AFTER \w+ ON) (\w+)")
_DROPS = re.compile(r"DROP (?:TABLE|INDEX) (?:IF EXISTS )?(\w+)")


@dataclass
class Part:
    """A table or an index of the newest schema, with the statements that make it."""

    name: str
    table: str
    is_index: bool
    statements: list[str]

    @property
    def is_copy(self) -> bool:
        return self.is_index or self.table.startswith(SEARCH_INDEX) or self.table in COPIES


def missing(read: Reader, kind: str) -> list[str]:
    """The names of tables and indexes that are not there."""
    there = {row["name"] for row in read.all("schema_names")}
    return sorted(parts(read.connection.dialect.name, kind).keys() - there)


def is_copy(dialect: str, kind: str, name: str) -> bool:
    return parts(dialect, kind)[name].is_copy


def parts(dialect: str, kind: str) -> dict[str, Part]:
    return _sqlite_parts(kind) if dialect == "sqlite" else _postgres_parts(kind)


# SQLite


@cache
def _sqlite_parts(kind: str) -> dict[str, Part]:
    """What an empty database has after all steps."""
    import apsw

    empty = apsw.Connection(":memory:")
    try:
        for _, sql in named_sql.migrations("sqlite", kind):
            empty.execute(sql)
        rows = empty.execute(
            "SELECT name, tbl_name, type, sql FROM sqlite_schema WHERE type IN ('table', 'index')"
        ).fetchall()
    finally:
        empty.close()
    found = [Part(str(name), str(table), type == "index", [str(sql)]) for name, table, type, sql in rows if sql]
    return {part.name: part for part in found if not part.name.startswith("sqlite_")}


def create_in_sqlite(raw: apsw.Connection, kind: str, gone: list[str]) -> list[str]:
    """Make the missing copies again, empty. Returns the names of those that were made."""
    expected = _sqlite_parts(kind)
    copies = [name for name in gone if expected[name].is_copy]
    virtual = [part for part in expected.values() if part.statements[0].startswith("CREATE VIRTUAL TABLE")]
    damaged = [part for part in virtual if any(_belongs(name, part.name) for name in copies)]
    with raw:
        for part in damaged:
            drop_virtual(raw, part.name)
        for part in damaged:
            raw.execute(part.statements[0])
        there = {str(name) for (name,) in raw.execute("SELECT name FROM sqlite_schema")}
        for name in copies:
            if name not in there and expected[name].table in there | set(copies):
                raw.execute(expected[name].statements[0])
        if any(part.name in INDEX_TABLES for part in damaged):
            tune_index(raw)
            raw.execute(MARK_PARTS)
    return copies


def _belongs(name: str, table: str) -> bool:
    """Is it this virtual table, or one of the tables in which it keeps its data?"""
    return name == table or (name.startswith(f"{table}_") and table in INDEX_TABLES)


def drop_virtual(raw: apsw.Connection, table: str) -> None:
    """Drop a virtual table, also one that has lost some of its own tables."""
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
    """The settings of an index are part of it: they stand in the steps that made it."""
    for _, sql in named_sql.migrations("sqlite", "workspace"):
        for line in re.findall(rf"^INSERT INTO (?:{'|'.join(INDEX_TABLES)}) .*;$", sql, re.MULTILINE):
            raw.execute(line)


# PostgreSQL


@cache
def _postgres_parts(kind: str) -> dict[str, Part]:
    """What the steps make, as far as a later one does not drop it."""
    found: dict[str, Part] = {}
    for _, sql in named_sql.migrations("postgres", kind):
        bare = re.sub(r"--[^\n]*", "", sql)
        for statement in (piece.strip() for piece in re.split(r";\s*\n", bare)):
            if made := _MAKES.match(statement):
                name, table = made[2], made[3] or made[2]
                found[name] = Part(name, table, made[1] != "TABLE", [statement])
            elif changed := _CHANGES.match(statement):
                if part := found.get(changed[1]):
                    part.statements.append(statement)
            elif dropped := _DROPS.match(statement):
                found = {name: part for name, part in found.items() if dropped[1] not in (name, part.table)}
    return found


def creation_for_postgres(kind: str, gone: list[str]) -> tuple[list[str], list[str]]:
    """The missing copies, and the statements that make them again: tables first, then their indexes."""
    expected = _postgres_parts(kind)
    before = list[str]()
    if any(name in TOGETHER for name in gone):
        before = [f"DROP TABLE IF EXISTS {', '.join(TOGETHER)} CASCADE"]
        gone = sorted({*gone, *(name for name, part in expected.items() if part.table in TOGETHER)})
    copies = [expected[name] for name in gone if expected[name].is_copy]
    lost = {expected[name].table for name in gone if not expected[name].is_index}
    made = {part.name for part in copies if not part.is_index}
    copies = [part for part in copies if part.name in made or part.table in made or part.table not in lost]
    copies.sort(key=lambda part: part.is_index)
    statements = before + [statement for part in copies for statement in part.statements]
    if "passage_trigrams" in made:
        statements.append(MARK_PARTS)
    return sorted(part.name for part in copies), statements
