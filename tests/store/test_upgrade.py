"""Data written under any earlier schema is all there, and found, when today's palaver opens it.

Something of everything is written by today's palaver. Then a database is made by the first steps alone, and gets by
plain SQL what a palaver of that time could have had: its tables, its sources, its index rows.
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from tests.conftest import Engine
from tests.store.bus import Bus
from tests.store.test_archive import found as found_in_archive
from tests.store.test_archive import put, said, talk
from tests.store.test_library import add, note
from tests.store.test_library import found as found_in_library

from palaver.app import App
from palaver.model.messages import Message, Thread
from palaver.operations.admin.repair import problems
from palaver.operations.bus import messages
from palaver.operations.sessions import recording, searching
from palaver.settings import Settings
from palaver.store.engines import named_sql
from palaver.store.engines.database import IndexRow
from palaver.store.engines.postgres import schemas as postgres
from palaver.store.engines.sqlite.dialect import SqliteDialect
from palaver.store.engines.sqlite.engine import SqliteConnection
from palaver.store.library import documents

SINCE = {"bus": 1, "sessions": 2, "archive": 4, "notes": 5}
"""From which schema on a source was there."""

PARTS = 6
IDENTITY = 10
LONG = 11
LONG_WORDS = 12
"""From this schema on substrings are looked up as today; before, their index is made anew."""
TIMES = 20
"""From this schema on the substring index of PostgreSQL has times."""
CHECKSUMS = 23
"""From this schema on texts have checksums."""
OWNERS = 24
"""From this schema on agents have owners."""
ONE_VECTOR = 14
"""Vectors of earlier schemas are dropped."""

Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Written:
    """What was written, and every row of every table of it."""

    home: Path
    thread: Thread
    messages: list[Message]
    secret: str
    workspace: Rows
    app: Rows


async def write(settings: Settings) -> tuple[Thread, list[Message], str]:
    app = App(settings)
    bus = Bus(await app.open())
    thread = await bus.thread("an old topic")
    first = await bus.post(thread, "heliotrope one", metadata={"a": 1}, priority="high")
    second = await bus.post(thread, "heliotrope two", reply_to_msg_id=first.id, idempotency_key="key")
    await bus.edit(second, "heliotrope edited")
    await bus.react(first, "agree")
    await bus.delete(await bus.post(thread, "taken back"))
    await bus.do(recording.record_turn, agent="bot", session="s-1", role="user", content="a turn about harbours")
    await put(bus, talk(said("an imported ivy"), title="On plants"))
    await add(bus, note("a note on lanterns", "Lights"))
    _, secret = await app.access.create_token("default", "human", "ann", ["read", "write"])
    told = await bus.messages(thread)
    await app.close()
    return thread, told, secret


@pytest.fixture(scope="module")
def written(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Written:
    home = tmp_path_factory.mktemp("today")
    settings = Settings(home=home, database_url=engine.empty())
    thread, told, secret = asyncio.run(write(settings))
    return Written(home, thread, told, secret, read_all(settings, "workspace"), read_all(settings, "server"))


# Tables, past all doors


def file_of(settings: Settings, kind: str) -> Path:
    place = Path(settings.database_url.removeprefix("sqlite:///"))
    return place / "house.db" if kind == "server" else place / "workspaces" / "default.db"


def schema_of(kind: str) -> str:
    return "palaver" if kind == "server" else "workspace_default"


def read_all(settings: Settings, kind: str) -> Rows:
    if settings.database_url.startswith("postgresql"):
        with psycopg.connect(settings.database_url, options=f"-c search_path={schema_of(kind)}") as raw:
            cursor = raw.cursor(row_factory=psycopg.rows.dict_row)
            names = postgres._tables(raw, schema_of(kind))
            return {name: cursor.execute(f"SELECT * FROM {name}".encode()).fetchall() for name in names}
    raw_file = SqliteConnection(file_of(settings, kind), SqliteDialect(), read_only=True)
    try:
        return {name: raw_file.fetch(f"SELECT * FROM {name}", {}) for name in tables(raw_file.raw)}
    finally:
        raw_file.raw.close()


def tables(raw: apsw.Connection) -> list[str]:
    rows = raw.execute("SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main'").fetchall()
    return [str(name) for (name,) in rows if not str(name).startswith("sqlite_")]


def as_of(rows: Rows, step: int) -> Rows:
    """What of it a palaver of that schema could have had."""
    if "documents" not in rows:
        return rows
    known = {row["id"] for row in rows["documents"] if SINCE[row["source"]] <= step}
    passages = {row["id"] for row in rows["passages"] if row["document_id"] in known}
    kept: Rows = {}
    for table, all_rows in rows.items():
        kept[table] = [
            row for row in all_rows if (row["id"] if table == "documents" else row.get("document_id")) in (None, *known)
        ]
        kept[table] = [row for row in kept[table] if row.get("passage_id") in (None, *passages)]
    if step < PARTS:
        kept["passage_trigrams"] = []
    elif step < TIMES:
        kept["passage_trigrams"] = [
            {name: row[name] for name in row if name != "created_at"} for row in kept.get("passage_trigrams", [])
        ]
    if step < CHECKSUMS:
        kept["passages"] = [{name: row[name] for name in row if name != "checksum"} for row in kept["passages"]]
    kept["documents"] = [
        {name: row[name] for name in row if name != "project"} for row in kept["documents"]
    ]  # generated
    if step < OWNERS:
        kept["agents"] = [{name: row[name] for name in row if name != "owner"} for row in kept["agents"]]
        kept["agent_connections"] = []
    if step < IDENTITY:
        newer = ("client", "project", "is_released")
        kept["agents"] = [{name: row[name] for name in row if name not in newer} for row in kept["agents"]]
    if step < LONG_WORDS:
        names = ("passage_id", "words") if step < LONG else ("passage_id", "length", "words", "tokens")
        kept["passage_index"] = [{name: row[name] for name in names} for row in kept.get("passage_index", [])]
    if step < ONE_VECTOR:
        kept["vectors"] = []
    if step < SINCE["notes"]:
        kept["counters"] = [row for row in kept["counters"] if row["name"] == "events"]
    return kept


def build(settings: Settings, kind: str, step: int, rows: Rows) -> None:
    """A database as of a schema, filled with these rows."""
    if settings.database_url.startswith("postgresql"):
        postgres.migrate(settings.database_url, schema_of(kind), kind, step)
        with psycopg.connect(settings.database_url, options=f"-c search_path={schema_of(kind)}") as raw:
            for table in postgres._tables(raw, schema_of(kind)):
                if table != "audit":
                    raw.execute(f"DELETE FROM {table}".encode())
                for row in rows.get(table, ()):
                    names, places = ", ".join(row), ", ".join(f"%({name})s" for name in row)
                    raw.execute(f"INSERT INTO {table} ({names}) VALUES ({places})".encode(), row)
            postgres.reset_sequences(raw, schema_of(kind))
        return
    path = file_of(settings, kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    own = SqliteConnection(path, SqliteDialect(), read_only=False)
    own.raw.execute("PRAGMA foreign_keys = OFF")
    for number, sql in named_sql.migrations("sqlite", kind):
        if number <= step:
            own.raw.execute(sql)
            own.raw.pragma("user_version", number)
    for table in tables(own.raw):
        for row in rows.get(table, ()):
            names, places = ", ".join(row), ", ".join(f":{name}" for name in row)
            own.raw.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({places})", row)
    if kind == "workspace":
        sources = {row["id"]: row["source"] for row in rows["documents"]}
        index: dict[int, IndexRow | None] = {}
        for row in rows["passages"]:
            made = documents.index_row_of(sources[row["document_id"]], row)
            index[row["id"]] = made if step >= SINCE["archive"] else replace(made, substring=None)
        own.dialect.write_index(own, index, set(index))
    own.raw.close()


STEPS = [number for number, _ in named_sql.migrations("sqlite", "workspace")]


@pytest.mark.examples(6)
@pytest.mark.parametrize("step", STEPS)
async def test_a_workspace_of_any_earlier_schema_is_all_there(
    engine: Engine, written: Written, tmp_path: Path, step: int
):
    assert [number for number, _ in named_sql.migrations("postgres", "workspace")] == STEPS
    settings = Settings(home=tmp_path / "home", database_url=engine.empty())
    build(settings, "workspace", step, as_of(written.workspace, step))
    if step >= SINCE["sessions"]:
        shutil.copytree(written.home / "sessions", settings.data / "sessions")
    app = App(settings)
    try:
        bus = Bus(await app.open())
        assert await bus.messages(written.thread) == written.messages
        first, second = written.messages
        assert await bus.found("heliotrope") == {first.id, second.id}
        assert await bus.found("edited") == {second.id}
        assert await bus.found("taken") == set()
        history = await bus.do(messages.message_history, message_id=second.id)
        assert [edit.old_content for edit in history.edits] == ["heliotrope two"]
        assert [reaction.reaction for reaction in first.reactions or ()] == ["agree"]
        log = await bus.log()
        assert [event.id for event in log] == list(range(1, len(log) + 1))
        if step >= SINCE["sessions"]:
            hits = await bus.do(searching.search_conversations, agent_id="bot", query="harbours")
            assert [hit.content for hit in hits.hits] == ["a turn about harbours"]
        if step >= SINCE["archive"]:
            assert await found_in_archive(bus, "orted iv") == ["an imported ivy"]
            assert await found_in_archive(bus, "on plan") == ["an imported ivy"]
        if step >= SINCE["notes"]:
            assert len(await found_in_library(bus, "lanterns")) == 1
        # And life goes on, in everything that came later too.
        again = await bus.do(
            messages.post_message, thread_id=written.thread.id, content="heliotrope two", idempotency_key="key"
        )
        assert again.id == second.id
        third = await bus.post(written.thread, "heliotrope three")
        assert third.seq == 4
        assert third.id in await bus.found("heliotrope")
        await bus.do(recording.record_turn, agent="bot", session="s-2", role="user", content="another turn")
        await put(bus, talk(said("another ivy", id="new"), id="chatgpt:2"))
        assert "another ivy" in await found_in_archive(bus, "other iv")
        await add(bus, note("a note on candles"))
        assert len(await found_in_library(bus, "candles")) == 1
    finally:
        await app.close()
    assert await problems(settings, "default") == []


@pytest.mark.parametrize("step", [number for number, _ in named_sql.migrations("sqlite", "server")])
async def test_a_server_database_of_any_earlier_schema_is_upgraded(
    engine: Engine, written: Written, tmp_path: Path, step: int
):
    settings = Settings(home=tmp_path / "home", database_url=engine.empty())
    build(settings, "server", step, written.app)
    app = App(settings)
    try:
        token = await app.access.find_token(written.secret)
        assert token is not None
        assert (token.workspace, token.name, token.scopes) == ("default", "ann", ["read", "write"])
        assert await app.workspaces() == ["default"]
        assert await app.check() == []
        assert bool(await app.audit_log()) == (step >= 2)
        cookie = await app.access.log_in(token)
        assert await app.access.find_login(cookie) is not None
        await app.access.revoke_token(token.id)
        assert await app.access.find_token(written.secret) is None
        assert await app.check() == []
    finally:
        await app.close()
