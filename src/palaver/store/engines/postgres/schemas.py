"""Schemas of PostgreSQL: creating, migrating, listing, copying, rewriting and dropping them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from palaver.errors import Unavailable
from palaver.store.engines import missing_tables, named_sql
from palaver.store.engines.postgres.connection import PostgresConnection, RawConnection, readable_errors
from palaver.store.engines.postgres.dialect import PostgresDialect
from palaver.store.engines.postgres.shared_connections import borrowed

AnyConnection = psycopg.Connection[Any]

CONNECT_SECONDS = 5
"""How long `server_info` waits for a connection."""
TOTALS_SINCE = 11
"""The migration that added row counts to the index."""
COLLATION_VERSIONS_SINCE = 150_000
"""The version of PostgreSQL that stores the version of a database's collation."""


def _sql(name: str) -> bytes:
    return named_sql.load("postgres")[name].encode()


def connect(url: str, schema: str) -> RawConnection:
    """Open a connection that sees this schema only."""
    return psycopg.connect(url, row_factory=dict_row, options=f"-c search_path={schema} -c lock_timeout=10s")


def lock(raw: AnyConnection, schema: str) -> None:
    """Keep other servers from changing this schema until the end of the transaction."""
    raw.execute(_sql("lock_schema"), {"name": f"palaver {schema}"})


def migrate(url: str, schema: str, kind: str, upto: int | None = None) -> None:
    """Migrate a schema to the newest version, or up to `upto`. Servers that start at once take turns."""
    steps = [step for step in named_sql.migrations("postgres", kind) if upto is None or step[0] <= upto]
    with psycopg.connect(url) as raw:
        lock(raw, schema)
        raw.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'.encode())
        raw.execute(f'SET LOCAL search_path TO "{schema}"'.encode())
        raw.execute(_sql("create_migrations"))
        have = _version(raw)
        if have > steps[-1][0]:
            raise Unavailable(f"This data was written by a newer palaver (schema {have}). Upgrade palaver.")
        for number, sql in steps:
            if number > have:
                raw.execute(sql.encode())
                raw.execute(_sql("insert_migration"), {"number": number})


def is_newest(raw: AnyConnection, schema: str, kind: str) -> bool:
    """Does this schema exist, and does it have all migrations? The connection sees the schema."""
    with raw.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(_sql("has_migrations"), {"name": f'"{schema}".migrations'}).fetchone()
    return bool(row and row["is_so"]) and _version(raw) == named_sql.migrations("postgres", kind)[-1][0]


def _version(raw: AnyConnection) -> int:
    with raw.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(_sql("schema_version")).fetchone()
    return int(row["number"]) if row else 0


def missing_tables_in(url: str, schema: str, kind: str) -> list[str]:
    """The tables and indexes that are missing in a schema. Nothing is changed."""
    with readable_errors(), connect(url, schema) as raw:
        if _version(raw) != named_sql.migrations("postgres", kind)[-1][0]:
            return []  # an older schema, which is migrated when it is opened
        return missing_tables.missing(PostgresConnection(raw, PostgresDialect()), kind)


def schemas(url: str, prefix: str) -> list[str]:
    """The schemas whose names have this prefix."""
    with readable_errors(), borrowed(url) as raw:
        return [row["nspname"] for row in raw.execute(_sql("schemas_with_prefix"), {"prefix": prefix}).fetchall()]


def existing_schemas(url: str, schemas: list[str]) -> list[str]:
    """The schemas of this list that exist."""
    with readable_errors(), borrowed(url) as raw:
        return [row["nspname"] for row in raw.execute(_sql("existing_schemas"), {"names": schemas}).fetchall()]


def drop(url: str, schema: str) -> None:
    with readable_errors(), psycopg.connect(url, options="-c lock_timeout=10s") as raw:
        raw.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'.encode())


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The version and settings of the PostgreSQL server and database."""

    version: str
    number: int
    encoding: str
    is_old_collation: bool
    """Whether the collation of the operating system has changed since the indexes were built."""
    may_create: bool
    buffer_bytes: int
    """The memory for tables and indexes that are read often: `shared_buffers`."""
    index_bytes: int
    """The size of the search indexes when they were last analysed."""


def server_info(url: str) -> ServerInfo:
    with readable_errors(), psycopg.connect(url, connect_timeout=CONNECT_SECONDS) as raw:
        row = raw.execute(_sql("server_info")).fetchone()
        assert row is not None
        version, number, encoding, may_create = row
        is_old = None
        if number >= COLLATION_VERSIONS_SINCE:
            is_old = raw.execute(_sql("is_old_collation")).fetchone()
        memory = raw.execute(_sql("memory_for_search")).fetchone()
        assert memory is not None
    return ServerInfo(version, number, encoding, bool(is_old and is_old[0]), may_create, int(memory[0]), int(memory[1]))


# Indexes


def invalid_indexes(raw: AnyConnection) -> list[str]:
    """Indexes that were never finished."""
    with raw.cursor(row_factory=dict_row) as cursor:
        return [str(row["name"]) for row in cursor.execute(_sql("invalid_indexes")).fetchall()]


def rebuild_invalid_indexes(url: str, schema: str) -> list[str]:
    """Rebuild indexes that are not valid. Returns their names."""
    with readable_errors(), psycopg.connect(url, autocommit=True, options=f"-c search_path={schema}") as raw:
        names = invalid_indexes(raw)
        for name in names:
            raw.execute(f'REINDEX INDEX "{name}"'.encode())
    return names


# Copies


def _tables(raw: AnyConnection, schema: str) -> list[str]:
    """The tables of a schema. A table comes after the tables that it refers to."""
    waiting = raw.execute(_sql("tables_with_references"), {"schema": schema}).fetchall()
    placed, ordered = set[int](), list[str]()
    while waiting:
        ready = [row for row in waiting if set(row[1]) <= placed]
        assert ready, "tables refer to each other in a circle"
        ordered += [row[0] for row in ready]
        placed |= {row[2] for row in ready}
        waiting = [row for row in waiting if row[2] not in placed]
    return ordered


def write_copy(url: str, schema: str, folder: Path) -> int:
    """Copy every table of one snapshot, in PostgreSQL's own text format. Returns the schema version."""
    with readable_errors(), psycopg.connect(url, options=f"-c search_path={schema}") as raw:
        raw.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        for table in _tables(raw, schema):
            file, cursor = (folder / f"{table}.copy").open("wb"), raw.cursor()
            with file, cursor, cursor.copy(f'COPY "{table}" TO STDOUT'.encode()) as data:
                for block in data:
                    file.write(block)
        return _version(raw)


def load_copy(url: str, schema: str, kind: str, number: int, folder: Path) -> None:
    """Create a schema of an older version and fill it from a backup. It is migrated when it is opened."""
    with readable_errors():
        migrate(url, schema, kind, number)
        with psycopg.connect(url, options=f"-c search_path={schema}") as raw:
            for table in _tables(raw, schema):
                path = folder / f"{table}.copy"
                if raw.execute(f'SELECT 1 FROM "{table}" LIMIT 1'.encode()).fetchone():
                    raw.execute(f'DELETE FROM "{table}"'.encode())
                with path.open("rb") as file, raw.cursor().copy(f'COPY "{table}" FROM STDIN'.encode()) as data:
                    while block := file.read(1 << 20):
                        data.write(block)
            reset_sequences(raw, schema)
            if kind == "workspace" and number >= TOTALS_SINCE:
                raw.execute(_sql("clear_totals"))  # the copy and the trigger both counted the rows
                raw.execute(_sql("recount_totals"))


def reset_sequences(raw: AnyConnection, schema: str) -> None:
    """Set each sequence to continue after the highest id."""
    for table, column in raw.execute(_sql("identity_columns"), {"schema": schema}).fetchall():
        last = f'(SELECT coalesce(max("{column}"), 0) + 1 FROM "{table}")'
        raw.execute(f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), {last}, false)".encode())


def rewrite(url: str, schema: str, kind: str) -> None:
    """Rewrite tables and indexes without deleted rows. The server removes old files of its own log (WAL) later."""
    if kind == "workspace":
        with readable_errors(), connect(url, schema) as raw:
            raw.execute(_sql("stop_indexing"))
            raw.execute(_sql("forget_runs"))
    with readable_errors(), psycopg.connect(url, autocommit=True) as raw:
        for table in _tables(raw, schema):
            name = f'"{schema}"."{table}"'
            raw.execute(f"VACUUM (FULL, ANALYZE) {name}".encode())
            if raw.execute(f"SELECT 1 FROM {name} LIMIT 1".encode()).fetchone():
                continue
            # The planner statistics of an empty table keep sample values of deleted rows. They are never updated, but
            # setting the type of a column again removes them.
            given = {"name": name, "schema": schema, "table": table}
            for column, kind in raw.execute(_sql("columns_with_statistics"), given).fetchall():
                raw.execute(f'ALTER TABLE {name} ALTER COLUMN "{column}" TYPE {kind}'.encode())
        raw.execute(b"VACUUM FULL pg_statistic")
        may_checkpoint = raw.execute(_sql("may_checkpoint")).fetchone()
        if may_checkpoint and may_checkpoint[0]:
            raw.execute(b"CHECKPOINT")  # the server then removes old files of its log
