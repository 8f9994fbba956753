"""What an engine promises beyond rows: time limits, schemas that move forward, walls between workspaces."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from tests.conftest import Engine
from tests.helpers import PATIENCE
from tests.store.bus import HUMAN, Bus, hear, open_workspace, opened, rows

from palaver.app import App
from palaver.errors import PalaverError, Refused, Timeout, TooMany, Unavailable
from palaver.model.people import Caller
from palaver.operations.bus.threads import CreateThread, OneThread, create_thread, get_thread
from palaver.operations.search.bus_search import SearchMessages, search_messages
from palaver.settings import Settings
from palaver.store.engines.database import Reader
from palaver.store.search.turns import MOST_WAITING, SEARCHES_AT_ONCE
from palaver.store.workspaces import check_name, open_engine

ENDLESS = {
    "sqlite": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 100000000) SELECT max(x) AS m FROM n",
    "postgres": "SELECT pg_sleep(600)",
}


INTERRUPTED = (apsw.InterruptError, psycopg.errors.QueryCanceled)


def endless(read: Reader) -> Any:
    return rows(read, ENDLESS[read.connection.dialect.name])


# Time limits


async def test_a_search_that_takes_too_long_is_given_up(settings: Settings):
    async with opened(replace(settings, search_timeout=0.3)) as bus:
        thread = await bus.thread()
        began = time.monotonic()
        with pytest.raises(Timeout, match="Database operation timeout"):
            await bus.here.search(HUMAN, endless)
        assert time.monotonic() - began > 0.25
        message = await bus.post(thread, "heliotrope")
        await asyncio.gather(*(bus.here.read(lambda read: None) for _ in range(20)))
        bus.here.settings = replace(settings, search_timeout=60.0)
        for _ in range(20):  # on every connection, also on the one that was interrupted
            assert await bus.found("heliotrope") == {message.id}


@pytest.mark.parametrize("seconds", [0.0, 0.000001])
async def test_with_no_time_at_all_every_search_is_given_up_and_reading_and_writing_go_on(
    settings: Settings, seconds: float
):
    async with opened(replace(settings, search_timeout=seconds)) as bus:
        thread = await bus.thread()
        for _ in range(10):
            with pytest.raises(Timeout):
                await bus.here.search(HUMAN, endless)
        message = await bus.post(thread, "heliotrope")
        assert await bus.messages(thread) == [message]


async def test_a_server_with_no_time_for_searches_starts_and_answers(settings: Settings):
    app = App(replace(settings, search_timeout=0.000001))
    here = await app.open()
    thread = await create_thread.perform(here, HUMAN, CreateThread(topic="no time"))
    assert (await get_thread.perform(here, HUMAN, OneThread(thread_id=thread.id))).topic == "no time"
    with pytest.raises(Timeout):
        await search_messages.perform(here, HUMAN, SearchMessages(query="heliotrope"))
    await app.close()


async def test_many_slow_searches_at_once_are_all_given_up_and_writing_goes_on(settings: Settings):
    async with opened(replace(settings, search_timeout=0.3)) as bus:
        thread = await bus.thread()
        slow = asyncio.gather(*(bus.here.search(HUMAN, endless) for _ in range(6)), return_exceptions=True)
        await asyncio.sleep(0)  # until each has begun, or waits for its turn
        for n in range(5):
            await bus.post(thread, f"meanwhile {n}")
        async with asyncio.timeout(60):
            answers = await slow
        assert all(isinstance(answer, Timeout) for answer in answers), answers
        await asyncio.gather(*(bus.state(thread) for _ in range(40)))


async def test_searches_of_one_caller_take_turns_and_waiting_does_not_count(settings: Settings):
    async with opened(replace(settings, search_timeout=0.3)) as bus:
        running, most = 0, 0

        def slow(read: Reader) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            with pytest.raises((Timeout, *INTERRUPTED)):
                endless(read)
            running -= 1

        await asyncio.gather(*(bus.here.search(HUMAN, slow) for _ in range(6)))
        assert most == SEARCHES_AT_ONCE


async def test_a_search_of_another_caller_does_not_wait_for_its_turn(settings: Settings):
    async with opened(replace(settings, search_timeout=60.0)) as bus:
        slow = [asyncio.create_task(bus.here.search(HUMAN, endless)) for _ in range(9)]
        await asyncio.sleep(0)  # until each has begun, or waits for its turn
        async with asyncio.timeout(50):
            assert await bus.here.search(Caller("agent", "rook"), lambda read: 7) == 7
        assert not any(task.done() for task in slow)
        for task in slow:
            task.cancel()


async def test_a_caller_with_very_many_waiting_searches_is_refused_more(settings: Settings):
    async with opened(replace(settings, search_timeout=60.0)) as bus:
        slow = [asyncio.create_task(bus.here.search(HUMAN, endless)) for _ in range(MOST_WAITING + SEARCHES_AT_ONCE)]
        await asyncio.sleep(0)  # until each has begun, or waits for its turn
        with pytest.raises(TooMany, match="waiting already"):
            await bus.here.search(HUMAN, endless)
        for task in slow:
            task.cancel()
        await asyncio.wait(slow)
        assert await bus.here.search(HUMAN, lambda read: 7) == 7


@pytest.mark.parametrize("is_search", [True, False])
async def test_a_read_whose_caller_left_is_stopped(settings: Settings, is_search: bool):
    async with opened(replace(settings, search_timeout=60.0)) as bus:
        began, ended = threading.Semaphore(0), threading.Semaphore(0)

        def slow(read: Reader) -> None:
            began.release()
            try:
                endless(read)
            finally:
                ended.release()

        read = partial(bus.here.search, HUMAN) if is_search else bus.here.read
        tasks = [asyncio.create_task(read(slow)) for _ in range(2)]
        for semaphore in (began, ended):
            for _ in tasks:
                assert await asyncio.to_thread(semaphore.acquire, timeout=PATIENCE)
            for task in tasks:
                task.cancel()


async def test_a_search_whose_caller_left_is_stopped_between_two_statements_too(settings: Settings):
    async with opened(replace(settings, search_timeout=60.0)) as bus:
        began, ended = threading.Event(), threading.Event()

        def ranking(read: Reader) -> None:
            began.set()
            try:
                while True:
                    read.check()
            finally:
                ended.set()

        task = asyncio.create_task(bus.here.search(HUMAN, ranking))
        assert await asyncio.to_thread(began.wait, PATIENCE)
        task.cancel()
        assert await asyncio.to_thread(ended.wait, PATIENCE)


async def test_a_slow_search_does_not_interrupt_its_neighbours(settings: Settings):
    async with opened(replace(settings, search_timeout=0.4)) as bus:
        thread = await bus.thread()
        slow = asyncio.gather(*(bus.here.search(HUMAN, endless) for _ in range(2)), return_exceptions=True)
        while not slow.done():
            await asyncio.gather(*(bus.state(thread) for _ in range(4)))
        assert all(isinstance(answer, Timeout) for answer in await slow)


# Schemas


async def test_opening_again_finds_everything_as_it_was(settings: Settings):
    async with opened(settings) as bus:
        thread = await bus.thread()
        message = await bus.post(thread, "heliotrope")
    async with opened(settings) as bus:
        assert await bus.messages(thread) == [message]
        assert await bus.found("heliotrope") == {message.id}
        assert (await bus.post(thread, "more")).seq == 2
        assert [e.id for e in await bus.log()] == [1, 2, 3]


async def test_opening_for_the_first_time_by_many_at_once_is_fine(settings: Settings):
    opening = [asyncio.to_thread(open_workspace, settings) for _ in range(6)]
    everyone = [Bus(here) for here in await asyncio.gather(*opening)]
    thread = await everyone[0].thread()
    answers = await asyncio.gather(*(bus.post(thread, "word") for bus in everyone))
    assert sorted(m.seq for m in answers) == [1, 2, 3, 4, 5, 6]
    for bus in everyone:
        await asyncio.to_thread(bus.here.close)


@pytest.mark.parametrize("kind", ["workspace", "server"])
async def test_data_of_a_newer_palaver_is_refused_in_plain_words(settings: Settings, kind: str, engine: Engine):
    name = "default" if kind == "workspace" else "server"
    (await asyncio.to_thread(open_engine, settings, name, kind)).close()
    if engine.name == "sqlite":
        place = Path(settings.database_url.removeprefix("sqlite:///"))
        file = place / "house.db" if kind == "server" else place / "workspaces" / "default.db"
        connection = apsw.Connection(str(file))
        connection.pragma("user_version", 9_999)
        connection.close()
    else:
        schema = "palaver" if kind == "server" else "workspace_default"
        with psycopg.connect(settings.database_url) as raw:
            raw.execute(f"INSERT INTO {schema}.migrations VALUES (9999)".encode())
    with pytest.raises(Unavailable, match=r"newer palaver.*9999.*Upgrade palaver"):
        await asyncio.to_thread(open_engine, settings, name, kind)


# Walls


async def test_workspaces_have_nothing_in_common(settings: Settings):
    async with opened(settings, "one") as one, opened(settings, "two") as two:
        thread = await one.thread("the same topic")
        message = await one.post(thread, "heliotrope")
        async with two.here.feed() as listener:
            other = await two.thread("the same topic")
            await one.post(thread, "not for you")
            assert other.id != thread.id
            assert await two.found("heliotrope") == set()
            assert [e.thread_id for e in await hear(listener, 1)] == [other.id]
            assert await listener.next(timeout=0.1) == []
        assert await one.found("heliotrope") == {message.id}
        with pytest.raises(PalaverError, match="not found"):
            await two.state(thread)
        assert [e.id for e in await two.log()] == [1]


async def test_names_that_look_alike_are_different_workspaces(settings: Settings):
    """'a-b' and 'a_b', and what else a mapping to schemas and files could confuse."""
    names = ["a-b", "a_b", "a__b", "a-_b", "a_-b", "ab", "workspace_a", "house", "palaver"]
    for name in names:
        async with opened(settings, name) as bus:
            assert await bus.last_event() == 0, name
            await bus.thread(f"only in {name}")


@pytest.mark.parametrize(
    "name",
    ["", "A", "ä", "a b", "../a", "a/b", "a.b", "-a", "_a", "a" * 41, "a\n", 'a"b', "a;b", "default.db", "a\x00"],
)
def test_a_name_that_could_lead_elsewhere_is_refused(name: str):
    with pytest.raises(Refused, match="is not a valid workspace name"):
        check_name(name)


@pytest.mark.parametrize("name", ["a", "0", "a-b_c", "a" * 40])
def test_an_ordinary_name_is_taken(name: str):
    assert check_name(name) == name


async def test_a_workspace_must_be_created_before_it_is_opened(settings: Settings):
    app = App(settings)
    try:
        with pytest.raises(PalaverError, match="not found"):
            await app.open("nowhere")
        with pytest.raises(Refused, match="is not a valid workspace name"):
            await app.create_workspace("../nowhere")
        await app.create_workspace("somewhere")
        with pytest.raises(Refused, match="already"):
            await app.create_workspace("somewhere")
        assert await app.workspaces() == ["default", "somewhere"]
    finally:
        await app.close()


@pytest.mark.parametrize("url", ["mysql://x", "/tmp/x.db", "sqlite://x"])
def test_a_database_url_of_another_kind_is_refused(url: str, tmp_path: Path):
    with pytest.raises(Refused, match="sqlite:/// or postgresql://"):
        open_engine(Settings(home=tmp_path, database_url=url), "default")


def test_an_unreachable_postgres_is_said_plainly(tmp_path: Path):
    url = "postgresql://nobody:secret@127.0.0.1:1/nowhere"
    with pytest.raises(Unavailable) as caught:
        open_engine(Settings(home=tmp_path, database_url=url), "default")
    assert "PostgreSQL is not reachable" in caught.value.message
    assert "secret" not in caught.value.message


# The file


async def test_the_file_is_private_and_synced(tmp_path: Path):
    settings = Settings(home=tmp_path / "home")
    async with opened(settings) as bus:
        await bus.thread()
        files = sorted((tmp_path / "home" / "workspaces").iterdir())
        names = ["default.db", "default.db-commit", "default.db-shm", "default.db-wal"]
        assert [file.name for file in files] == names
        assert [stat.S_IMODE(os.stat(file).st_mode) for file in files] == [0o600] * 4

        def pragmas(change):
            return [change.connection.raw.pragma(name) for name in ("journal_mode", "synchronous", "foreign_keys")]

        assert await bus.here.change(pragmas) == ["wal", 2, 1]


async def test_a_url_that_names_a_file_is_the_default_workspace(tmp_path: Path):
    settings = Settings(home=tmp_path, database_url=f"sqlite:///{tmp_path}/my.db")
    async with opened(settings) as bus, opened(settings, "house") as other:
        await bus.thread()
        await other.thread()
    open_engine(settings, "server", "server").close()
    assert sorted(p.name for p in tmp_path.glob("*.db")) == ["my-house.db", "my.db", "my.house.db"]


async def test_a_damaged_file_is_said_plainly(tmp_path: Path):
    settings = Settings(home=tmp_path)
    async with opened(settings) as bus:
        await bus.thread()
    file = tmp_path / "workspaces" / "default.db"
    file.write_bytes(b"this is not a database" * 1000)
    with pytest.raises(Unavailable, match="damaged"):
        open_workspace(settings)


async def test_a_folder_that_cannot_be_written_is_said_plainly(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Unavailable, match="data directory cannot be written"):
        open_workspace(Settings(home=tmp_path / "file" / "home"))


async def test_a_loop_that_has_ended_does_not_stop_the_writer(tmp_path: Path):
    """Whoever was waiting is gone; the next one is served all the same."""
    here = open_workspace(Settings(home=tmp_path))
    gone = asyncio.new_event_loop()

    def leave_a_job_behind() -> None:
        async def hand_over() -> None:
            task = asyncio.ensure_future(Bus(here).thread("from a loop that ends"))
            await asyncio.sleep(0)
            task.cancel()

        gone.run_until_complete(hand_over())
        gone.close()

    left = threading.Event()
    slow = asyncio.ensure_future(here.change(lambda change: left.wait(PATIENCE)))
    await asyncio.sleep(0)
    await asyncio.to_thread(leave_a_job_behind)
    left.set()
    await slow
    async with asyncio.timeout(PATIENCE):
        await Bus(here).thread("from a loop that goes on")
    here.close()


async def test_the_texts_with_images_are_found_by_an_index(bus: Bus):
    def plan(read: Reader) -> str:
        connection = read.connection
        if connection.dialect.name == "postgres":  # it would read all texts of a small table
            connection.run("SET LOCAL enable_seqscan = off", {})
        explain = "EXPLAIN" if connection.dialect.name == "postgres" else "EXPLAIN QUERY PLAN"
        return str(connection.fetch(f"{explain} {connection.dialect.sql('passages_with_images')}", {}))

    used = await bus.here.read(plan)
    assert all(index in used for index in ("passages_with_images", "edits_with_images", "bodies_with_images"))
