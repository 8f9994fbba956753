"""The clock is set back and forth: order and numbers do not come from it, and what runs out runs out by it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.conftest import Engine
from tests.helpers import PATIENCE, eventually
from tests.store.bus import Bus, hear

from palaver.app import App
from palaver.errors import TooMany
from palaver.model import times
from palaver.operations.admin.maintenance import sweep
from palaver.operations.bus import agents, messages, threads, waiting
from palaver.operations.sessions import recording, searching, sessions
from palaver.operations.sessions.session_index import verify
from palaver.settings import Settings

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


class Clock:
    """The time of day that the whole server uses."""

    shift = timedelta()

    def get(self) -> datetime:
        return datetime.now(UTC) + self.shift

    def jump(self, by: timedelta) -> None:
        self.shift += by


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(times, "_then", clock)
    return clock


@pytest.fixture
async def app(engine: Engine, tmp_path: Path, clock: Clock) -> AsyncIterator[App]:
    app = App(Settings(home=tmp_path, database_url=engine.fresh()))
    yield app
    await app.close()


@pytest.mark.parametrize("jump", [-DAY, DAY], ids=["back", "forth"])
async def test_messages_keep_their_order_and_listeners_hear_all(app: App, clock: Clock, jump: timedelta):
    bus = Bus(await app.open())
    thread = await bus.thread()
    async with bus.here.feed() as listener:
        said = []
        for n in range(4):
            said.append(await bus.post(thread, f"heliotrope {n}"))
            clock.jump(jump)
        assert [m.seq for m in said] == [1, 2, 3, 4]
        assert (said[0].created_at < said[-1].created_at) == (jump > timedelta())  # it did jump
        assert [m.id for m in await bus.messages(thread)] == [m.id for m in said]
        assert [e.message_id for e in await hear(listener, 4)] == [m.id for m in said]
    newest = await bus.do(messages.list_messages, thread_id=thread.id, newest=True, limit=2)
    assert [m.seq for m in newest.messages] == [3, 4]
    assert await bus.found("heliotrope") == {m.id for m in said}
    edited = await bus.do(messages.edit_message, message_id=said[0].id, content="edited in another time")
    assert edited.edit_version == 1
    assert [e.id for e in await bus.log()] == list(range(1, 7))


@pytest.mark.parametrize("jump", [-DAY, DAY], ids=["back", "forth"])
async def test_who_waits_neither_gives_up_early_nor_sleeps_on(app: App, clock: Clock, jump: timedelta):
    bus = Bus(await app.open())
    thread = await bus.thread()
    wait = asyncio.create_task(bus.do(waiting.wait_for_messages, thread_id=thread.id, after_seq=0, timeout_ms=20_000))
    await asyncio.to_thread(eventually, lambda: bus.here.listeners or wait.done())
    clock.jump(jump)
    done, _ = await asyncio.wait((wait,), timeout=0.2)
    assert not done
    message = await bus.post(thread, "here I am")
    async with asyncio.timeout(PATIENCE):
        assert [m.id for m in (await wait).messages] == [message.id]
    # And one that nobody answers ends when its time is over, by the watch and not by the clock.
    began = time.monotonic()
    wait = asyncio.create_task(bus.do(waiting.wait_for_messages, thread_id=thread.id, after_seq=1, timeout_ms=300))
    await asyncio.to_thread(eventually, lambda: bus.here.listeners or wait.done())
    clock.jump(-jump)
    async with asyncio.timeout(PATIENCE):
        assert (await wait).messages == []
    assert time.monotonic() - began > 0.25


async def test_a_token_runs_out_by_the_clock_in_both_directions(app: App, clock: Clock):
    token, secret = await app.access.create_token("default", "human", "ann", ["read", "write"], HOUR)
    cookie = await app.access.log_in(token)
    clock.jump(2 * HOUR)
    assert await app.access.find_token(secret) is None
    assert await app.access.find_login(cookie) is None
    clock.jump(-2 * HOUR)
    assert await app.access.find_token(secret) is not None
    clock.jump(-DAY)
    assert await app.access.find_token(secret) is not None
    assert await app.check() == []  # the chain of the audit log does not come from the clock


async def test_the_rate_limit_does_not_last_longer_because_the_clock_was_set_back(
    engine: Engine, tmp_path: Path, clock: Clock
):
    settings = replace(Settings(home=tmp_path, database_url=engine.fresh()), rate_limit=2)
    app = App(settings)
    bus = Bus(await app.open())
    thread = await bus.thread()
    for n in range(2):
        await bus.post(thread, f"word {n}", author="ann")
    with pytest.raises(TooMany):
        await bus.post(thread, "word 3", author="ann")
    clock.jump(-DAY)
    assert (await bus.post(thread, "word 4", author="ann")).seq == 3
    await app.close()


async def test_agents_are_seen_and_missed_as_usual_after_a_jump(app: App, clock: Clock):
    here = await app.open()
    bus = Bus(here)
    agent = await bus.do(agents.register_agent, ide="test", model="m")

    async def is_online() -> bool:
        await sweep(here)
        found = await bus.do(agents.get_agent, agent_id=agent.agent_id)
        return bool(found.is_online)

    assert await is_online()
    clock.jump(-DAY)
    assert not await is_online()  # last heard of tomorrow: nobody knows when that was
    await bus.do(agents.heartbeat, agent_id=agent.agent_id, token=agent.token)
    assert await is_online()
    clock.jump(DAY)
    assert not await is_online()


async def test_a_session_begun_anew_after_its_deletion_is_kept_though_the_clock_was_set_back(app: App, clock: Clock):
    bus = Bus(await app.open())

    async def record(content: str) -> None:
        await bus.do(recording.record_turn, agent="bot", session="s-1", role="user", content=content)

    async def found() -> list[str]:
        hits = await bus.do(searching.search_conversations, agent_id="bot", query="harbour")
        return [hit.content for hit in hits.hits]

    await record("harbour one")
    clock.jump(-DAY)
    await bus.do(sessions.delete_session, agent="bot", session="s-1")
    assert await found() == []
    clock.jump(-DAY)
    await record("harbour two")
    assert await found() == ["harbour two"]
    assert all(difference.is_fine for difference in await verify(bus.here))
    clock.jump(3 * DAY)
    await record("harbour three")
    assert sorted(await found()) == ["harbour three", "harbour two"]
    assert all(difference.is_fine for difference in await verify(bus.here))


async def test_threads_are_listed_page_by_page_whatever_the_clock_did(app: App, clock: Clock):
    bus = Bus(await app.open())
    made = set()
    for n in range(6):
        clock.jump(DAY if n % 2 else -2 * DAY)
        made.add((await bus.thread()).id)
    seen: list[str] = []
    cursor = None
    while True:
        page = await bus.do(threads.list_threads, limit=2, before=cursor)
        seen += [thread.id for thread in page.threads]
        if not page.has_more:
            break
        cursor = page.next_cursor
    assert sorted(seen) == sorted(made)
