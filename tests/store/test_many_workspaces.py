"""A server with many workspaces: few connections and open files, and one upgrade for all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from tests.conftest import Engine
from tests.store.bus import Bus, hear

from palaver import app as application
from palaver.app import App
from palaver.errors import PalaverError
from palaver.settings import Settings
from palaver.store.engines import named_sql
from palaver.store.engines.postgres.shared_connections import MOST_CONNECTIONS
from palaver.store.workspaces import file_of, has_data, open_engine

NEWEST = named_sql.migrations("sqlite", "workspace")[-1][0]
WITHOUT_NEWEST = (
    "DROP TABLE {schema}file_edits; DROP TABLE {schema}edit_warnings; "
    "ALTER TABLE {schema}agent_connections DROP COLUMN task"
)
"""Undoes the newest migration."""


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[App]:
    app = App(settings)
    yield app
    await app.close()


def open_names(app: App) -> set[str]:
    return {here.name for here in app.opened()}


async def test_an_idle_workspace_is_closed_and_the_next_use_opens_it_again(app: App):
    await app.open()
    here = await app.create_workspace("team")
    bus = Bus(here)
    thread = await bus.thread()
    first = await bus.post(thread, "heliotrope")
    commits = here.engine.stats().commits
    await app.close_idle_workspaces(0)
    assert open_names(app) == {"default"}
    assert here.engine.stats().commits == commits
    second = await bus.post(thread, "heliotrope")  # by an object from before
    assert open_names(app) == {"default", "team"}
    assert await bus.messages(thread) == [first, second]
    assert await app.open("team") is here
    await app.close_idle_workspaces(3600)
    assert open_names(app) == {"default", "team"}


async def test_a_workspace_with_a_listener_or_a_running_read_is_not_closed(app: App):
    here = await app.create_workspace("team")
    bus = Bus(here)
    thread = await bus.thread()
    async with here.feed() as listener:
        await app.close_idle_workspaces(0)
        assert open_names(app) == {"team"}
        message = await bus.post(thread, "heliotrope")
        assert [event.message_id for event in await hear(listener, 1)] == [message.id]
    begun, may_end = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(read: Any) -> str:
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(may_end.wait(), loop).result()
        return "done"

    reading = asyncio.create_task(here.read(slow))
    await begun.wait()
    await app.close_idle_workspaces(0)
    assert open_names(app) == {"team"}
    may_end.set()
    assert await reading == "done"
    await app.close_idle_workspaces(0)
    assert open_names(app) == set()


@pytest.mark.thorough("postgres")
async def test_at_most_some_workspaces_are_open_and_all_work(app: App, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(application, "MOST_OPEN", 3)
    names = [f"team{n}" for n in range(8)]
    everyone = [Bus(await app.create_workspace(name)) for name in names]
    assert open_names(app) == set(names[-3:])
    threads = await asyncio.gather(*(bus.thread("the same topic") for bus in everyone))
    said = await asyncio.gather(
        *(bus.post(thread, f"heliotrope {n}") for n, (bus, thread) in enumerate(zip(everyone, threads, strict=True)))
    )
    for bus, message in zip(everyone, said, strict=True):
        assert await bus.found("heliotrope") == {message.id}
    await app.close_idle_workspaces()
    assert len(app.opened()) <= 3


@pytest.mark.thorough
async def test_many_workspaces_share_a_few_connections(on_postgres: Engine, tmp_path: Path):
    url = on_postgres.fresh()
    app = App(Settings(home=tmp_path, database_url=url))
    try:
        everyone = [Bus(await app.create_workspace(f"team{n}")) for n in range(30)]
        threads = await asyncio.gather(*(bus.thread() for bus in everyone))
        listeners = [bus.here.feed() for bus in everyone]
        for listener in listeners:
            await listener.__aenter__()
        for _ in range(3):
            posts = (bus.post(thread, "heliotrope") for bus, thread in zip(everyone, threads, strict=True))
            await asyncio.gather(*posts)
        heard = [await hear(listener, 3) for listener in listeners]
        for listener in listeners:
            await listener.__aexit__(None, None, None)
        for bus, thread, events in zip(everyone, threads, heard, strict=True):
            messages = await bus.messages(thread)
            assert [message.seq for message in messages] == [1, 2, 3]
            assert [event.message_id for event in events] == [message.id for message in messages]
        with psycopg.connect(url) as raw:
            row = raw.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()").fetchone()
        assert row is not None
        assert row[0] <= MOST_CONNECTIONS + 2  # one listens, and this one counts
    finally:
        await app.close()


async def test_a_workspace_that_was_deleted_while_it_was_idle_is_not_created_again(app: App, settings: Settings):
    bus = Bus(await app.create_workspace("team"))
    await app.close_idle_workspaces(0)
    other = App(settings)
    await other.delete_workspace("team")
    await other.close()
    with pytest.raises(PalaverError, match="not found"):
        await bus.thread()
    assert not has_data(settings, "team")


def set_back(settings: Settings, name: str) -> None:
    """Give a workspace the schema before the newest."""
    if settings.database_url.startswith("postgresql"):
        with psycopg.connect(settings.database_url) as raw:
            raw.execute(f"DELETE FROM workspace_{name}.migrations WHERE number = {NEWEST}".encode())
            raw.execute(WITHOUT_NEWEST.format(schema=f"workspace_{name}.").encode())
    else:
        connection = apsw.Connection(str(file_of(settings, name, "workspace")))
        connection.pragma("user_version", NEWEST - 1)
        connection.execute(WITHOUT_NEWEST.format(schema=""))
        connection.close()


def version_of(settings: Settings, name: str) -> int:
    if settings.database_url.startswith("postgresql"):
        with psycopg.connect(settings.database_url) as raw:
            row = raw.execute(f"SELECT max(number) FROM workspace_{name}.migrations".encode()).fetchone()
        return int(row[0]) if row else 0
    connection = apsw.Connection(str(file_of(settings, name, "workspace")))
    try:
        return int(connection.pragma("user_version"))
    finally:
        connection.close()


async def test_an_upgrade_of_all_workspaces_that_ended_early_goes_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    names = ["default", *(f"team{n}" for n in range(7))]
    app = App(settings)
    await app.open()
    for name in names:
        bus = Bus(await (app.open(name) if name == "default" else app.create_workspace(name)))
        await bus.post(await bus.thread(), f"heliotrope in {name}")
    await app.close()
    for name in names:
        set_back(settings, name)

    opened: list[str] = []

    def fails_after_three(given: Settings, name: str, kind: str = "workspace") -> Any:
        if kind == "workspace":
            opened.append(name)
            if len(opened) > 3:
                raise OSError("cut off")
        return open_engine(given, name, kind)

    app = App(settings)
    with monkeypatch.context() as patched:
        patched.setattr(application, "open_engine", fails_after_three)
        with pytest.raises(OSError, match="cut off"):
            await app.upgrade_workspaces(2, lambda name, problem: None)
    await app.close()
    done = {name for name in names if version_of(settings, name) == NEWEST}
    assert 1 <= len(done) <= 3

    app, reported = App(settings), dict[str, str | None]()
    assert await app.upgrade_workspaces(2, reported.__setitem__) == 0
    assert reported == dict.fromkeys(names)
    assert open_names(app) == {"default"}
    for name in names:
        assert version_of(settings, name) == NEWEST
        assert len(await Bus(await app.open(name)).found(f'"in {name}"')) == 1
    await app.close()


async def test_a_workspace_that_cannot_be_upgraded_does_not_stop_the_others(settings: Settings):
    app = App(settings)
    for name in ("a", "b", "c"):
        await app.create_workspace(name)
    await app.close()
    set_back(settings, "c")
    if settings.database_url.startswith("postgresql"):
        with psycopg.connect(settings.database_url) as raw:
            raw.execute(b"INSERT INTO workspace_b.migrations VALUES (9999)")
    else:
        connection = apsw.Connection(str(file_of(settings, "b", "workspace")))
        connection.pragma("user_version", 9999)
        connection.close()
    app, reported = App(settings), dict[str, str | None]()
    assert await app.upgrade_workspaces(1, reported.__setitem__) == 1
    await app.close()
    assert "newer palaver" in (reported.pop("b") or "")
    assert reported == {"a": None, "c": None, "default": None}
    assert version_of(settings, "c") == NEWEST
