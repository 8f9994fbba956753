"""Finds missing tables and indexes, and creates those that can be filled again.

Search indexes, marks and vectors are derived data, as are all indexes. `sql/derived/` has the statements that create
them empty; they are filled from texts and transcripts. Any other missing table means lost data: it is reported, and
never created empty.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import orjson

from palaver.store.engines import named_sql
from palaver.store.engines.database import Connection

if TYPE_CHECKING:
    import apsw

DATA_TABLES = {
    "workspace": {
        "agent_connections", "agent_secrets", "agents", "bodies", "claims", "closed_points", "counters",
        "delivered_messages", "deliveries", "documents", "edit_warnings", "edits", "events", "file_edits",
        "import_jobs", "mentions", "names", "origins", "passages", "post_keys", "post_times", "questions",
        "reactions", "read_marks", "readers", "returns", "saved_searches", "templates", "threads", "watched_files",
        "webhook_calls", "webhooks", "workspace_settings",
    },
    "server": {
        "audit", "audit_head", "logins", "oauth_agents", "oauth_clients", "oauth_grants", "oauth_secrets", "tokens",
        "webhook_workspaces", "workspaces",
    },
}  # fmt: skip
"""The tables whose rows are in no other place."""
INDEX_TABLES = ("passage_index", "passage_trigrams")
"""The full-text index and the substring index."""
OTHER_INDEX_TABLES = {
    "sqlite": {f"{table}_{part}": table for table in INDEX_TABLES for part in ("data", "idx", "docsize", "config")},
    "postgres": {
        "passage_totals": "passage_index",
        "passage_parts": "passage_index",
        "passage_runs": "passage_trigrams",
    },
}
"""Tables that are only created together with one of these two."""


@cache
def _derived(dialect: str, kind: str) -> dict[str, str]:
    """The statements that create each table and index with derived data, tables first."""
    folder = files("palaver.store") / "sql" / "derived"
    tables = named_sql.statements(folder / f"{dialect}.sql") if kind == "workspace" else {}
    indexes = (folder / f"{kind}_indexes.sql").read_text("utf-8").partition("\n\n")[2].strip(";\n").split(";\n")
    return tables | {sql.partition(" ON ")[0].split()[-1]: sql for sql in indexes}


def is_data(kind: str, name: str) -> bool:
    return name in DATA_TABLES[kind]


def expected(dialect: str, kind: str) -> set[str]:
    """The names of all tables and indexes of the newest schema."""
    others = OTHER_INDEX_TABLES[dialect] if kind == "workspace" else ()
    return {*DATA_TABLES[kind], *_derived(dialect, kind), *others}


def missing(connection: Connection, kind: str) -> list[str]:
    """The names of tables and indexes that are missing."""
    wanted = expected(connection.dialect.name, kind)
    names = {"names": orjson.dumps(list(wanted)).decode()}
    there = {row["name"] for row in connection.fetch(connection.dialect.sql("schema_names"), names)}
    return sorted(wanted - there)


def create(
    connection: Connection, kind: str, run: Callable[[str], object], drop: Callable[[str], object] = lambda table: None
) -> list[str]:
    """Create the missing tables and indexes with derived data, empty. Returns their names.

    `drop` removes what is left of an index table, where its statements do not do that.
    """
    dialect, before = connection.dialect.name, missing(connection, kind)
    gone = before
    for _ in range(2):  # with a table its other indexes are dropped
        lost = [f" {name} " for name in gone if is_data(kind, name)]
        wanted = {OTHER_INDEX_TABLES[dialect].get(name, name) for name in gone}
        for name, sql in _derived(dialect, kind).items():
            if name in wanted and not any(table in sql for table in lost):
                if name in INDEX_TABLES:
                    drop(name)
                run(sql)
        gone = missing(connection, kind) if wanted else []
    return sorted(set(before) - set(gone))


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
        for name, owner in OTHER_INDEX_TABLES["sqlite"].items():
            if owner == table:
                raw.execute(f"DROP TABLE IF EXISTS {name}")
