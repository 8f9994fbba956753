"""Migrations that were released never change, and what they make can be made again if it is missing."""

from __future__ import annotations

import hashlib
from typing import Any

import apsw
import psycopg
import pytest
from tests.conftest import Engine

from palaver.settings import Settings
from palaver.store.engines import missing_tables, named_sql
from palaver.store.workspaces import file_of, open_engine

RELEASED = {
    ("sqlite", "workspace"): (11, "f327054036e3bff6"),
    ("sqlite", "server"): (3, "a4ca18a554837fef"),
    ("postgres", "workspace"): (11, "012574bc980e98a2"),
    ("postgres", "server"): (3, "dd3c6912e63741ca"),
}
"""The number of the last migration of 0.1, and a hash of all up to it."""
TABLES = {
    *missing_tables.INDEX_TABLES, *missing_tables.OTHER_INDEX_TABLES["postgres"], "passage_threes", "passage_terms",
    "vectors", "transcript_marks", "search_sessions", "mcp_sessions",
}  # fmt: skip
"""Tables with derived data, of both engines. The rest of it are indexes."""


@pytest.mark.parametrize("dialect, kind", RELEASED)
def test_released_migrations_are_as_they_were(dialect: str, kind: str):
    last, digest = RELEASED[dialect, kind]
    released = [sql for number, sql in named_sql.migrations(dialect, kind) if number <= last]
    assert len(released) == last
    assert hashlib.sha256("".join(released).encode()).hexdigest()[:16] == digest


def schema_of(engine: Engine, settings: Settings) -> list[Any]:
    """Everything that the schema of a workspace has."""
    if engine.name == "sqlite":
        raw = apsw.Connection(str(file_of(settings, "default", "workspace")))
        try:
            return sorted(raw.execute("SELECT name, type, sql FROM sqlite_schema").fetchall())
        finally:
            raw.close()
    own = "current_schema()::regnamespace"
    looks = (
        f"SELECT relname, relkind, reloptions FROM pg_class WHERE relnamespace = {own}",
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()",
        f"""SELECT relname, attname, format_type(atttypid, atttypmod), attnotnull, attstorage, attstattarget
            FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
            WHERE relnamespace = {own} AND attnum > 0 AND NOT attisdropped""",
        f"SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = {own}",
        f"""SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
            WHERE relnamespace = {own} AND NOT tgisinternal""",
    )
    with psycopg.connect(settings.database_url, options="-c search_path=workspace_default") as raw_postgres:
        return [sorted(map(str, raw_postgres.execute(look.encode()).fetchall())) for look in looks]


def run_in_workspace(engine: Engine, settings: Settings, statements: list[str]) -> None:
    if engine.name == "sqlite":
        raw = apsw.Connection(str(file_of(settings, "default", "workspace")))
        for statement in statements:
            raw.execute(statement)
        raw.close()
        return
    with psycopg.connect(settings.database_url, options="-c search_path=workspace_default") as connection:
        for statement in statements:
            connection.execute(statement.encode())


@pytest.mark.parametrize("kind", ["workspace", "server"])
def test_every_table_and_index_of_the_newest_schema_is_known(engine: Engine, settings: Settings, kind: str):
    """A migration that adds one adds it to `DATA_TABLES` or `sql/derived/` too."""
    open_engine(settings, "default", kind).close()
    if engine.name == "sqlite":
        raw = apsw.Connection(str(file_of(settings, "default", kind)))
        names = (
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'index') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
        there = {name for (name,) in raw.execute(names)}
        raw.close()
    else:
        schema = "workspace_default" if kind == "workspace" else "palaver"
        with psycopg.connect(settings.database_url, options=f"-c search_path={schema}") as connection:
            names = """SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace
                AND relkind IN ('r', 'i') AND relname <> 'migrations'
                AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = pg_class.oid)"""
            there = {name for (name,) in connection.execute(names.encode())}
    assert there == missing_tables.expected(engine.name, kind)


def test_missing_tables_and_indexes_are_made_again_as_the_migrations_made_them(engine: Engine, settings: Settings):
    open_engine(settings, "default").close()
    before = schema_of(engine, settings)
    shadows = missing_tables.OTHER_INDEX_TABLES["sqlite"].keys() if engine.name == "sqlite" else set()
    derived = missing_tables.expected(engine.name, "workspace") - missing_tables.DATA_TABLES["workspace"] - shadows
    run_in_workspace(engine, settings, [f"DROP INDEX {name}" for name in derived - TABLES])
    cascade = " CASCADE" if engine.name == "postgres" else ""
    run_in_workspace(engine, settings, [f"DROP TABLE {name}{cascade}" for name in sorted(derived & TABLES)])
    assert schema_of(engine, settings) != before
    open_engine(settings, "default").close()
    assert schema_of(engine, settings) == before
