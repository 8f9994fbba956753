"""The feed: every listener hears every event of its thread once, in order, whatever else goes on."""

from __future__ import annotations

import asyncio
import random
from math import inf

import pytest
from tests.helpers import PATIENCE
from tests.store.bus import Bus, hear, opened, posting
from tests.store.test_change import Spoiled, raise_after

from palaver.model.events import Event
from palaver.operations.bus import messages, threads
from palaver.settings import Settings
from palaver.store.bus import events, feed
from palaver.store.bus.feed import FeedClosed


def ids(heard: list[Event]) -> list[int]:
    return [event.id for event in heard]


async def test_a_fresh_listener_hears_from_now_on(bus: Bus):
    thread = await bus.thread()
    await bus.post(thread, "before")
    async with bus.here.feed() as listener:
        message = await bus.post(thread, "after")
        heard = await hear(listener, 1)
        assert [(e.id, e.type, e.thread_id, e.message_id) for e in heard] == [(3, "msg.new", thread.id, message.id)]
        assert await listener.next(timeout=0.05) == []


async def test_every_kind_of_change_tells_what_it_did_and_nothing_else(bus: Bus):
    async with bus.here.feed() as listener:
        thread = await bus.thread()
        message = await bus.post(thread, "one")
        await bus.edit(message, "two")
        await bus.edit(message, "two")  # says the same: no news
        await bus.react(message, "agree")
        await bus.react(message, "agree")
        await bus.do(threads.close_thread, thread_id=thread.id)
        await bus.do(threads.close_thread, thread_id=thread.id)
        await bus.delete(message)
        await bus.do(threads.delete_thread, thread_id=thread.id)
        heard = await hear(listener, 7)
        assert [e.type for e in heard] == [
            "thread.new", "msg.new", "msg.edit", "msg.react", "thread.state", "msg.delete", "thread.deleted",
        ]  # fmt: skip
        assert await listener.next(timeout=0.05) == []


async def test_events_that_concern_somebody_else_do_not_make_a_listener_wait_longer(bus: Bus):
    thread = await bus.thread()

    async def post_on() -> None:
        while True:
            await bus.post(thread, "for others")

    async with bus.here.feed() as listener, asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        others = group.create_task(post_on())
        await listener.wait_for(lambda event: False, 0.3)
        others.cancel()
        mine = await bus.post(thread, "mine")
        await listener.wait_for(lambda event: event.message_id == mine.id, inf)


async def test_a_change_that_fails_is_not_heard_of(bus: Bus):
    thread = await bus.thread()
    async with bus.here.feed() as listener:
        with pytest.raises(Spoiled):
            await bus.here.change(raise_after(posting(thread, "lost")))
        message = await bus.post(thread, "kept")
        assert [e.message_id for e in await hear(listener, 1)] == [message.id]


async def test_an_event_is_sent_after_its_change_can_be_read(bus: Bus, settings: Settings):
    """An event is never told before its change is there for everybody, also for another process."""
    thread = await bus.thread()
    async with opened(settings) as other, bus.here.feed() as listener:
        posts = asyncio.gather(*(bus.post(thread, f"word{n}") for n in range(60)))
        heard = 0
        async with asyncio.timeout(PATIENCE):
            while heard < 60:
                for event in await listener.next(timeout=1):
                    assert event.message_id
                    await other.do(messages.get_message, message_id=event.message_id)
                    heard += 1
        await posts


@pytest.mark.parametrize("after", [0, 1, 7, 29, 30])
async def test_a_listener_who_says_where_it_was_hears_exactly_what_came_after(
    bus: Bus, after: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(feed, "READ_AT_ONCE", 4)
    thread = await bus.thread()
    for n in range(29):
        await bus.post(thread, f"word{n}")
    log = await bus.log()
    async with bus.here.feed(after=after) as listener:
        replayed = await hear(listener, 30 - after)
        assert replayed == log[after:]
        await bus.post(thread, "live")
        assert ids(await hear(listener, 1)) == [31]
        assert await listener.next(timeout=0.05) == []


async def test_a_listener_of_one_thread_hears_only_that_thread(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feed, "READ_AT_ONCE", 3)
    one, other = await bus.thread(), await bus.thread()
    for n in range(10):
        await bus.post(one if n % 2 else other, f"word{n}")
    mine = [e for e in await bus.log() if e.thread_id == one.id]
    async with bus.here.feed(after=0, thread_id=one.id) as listener, bus.here.feed(thread_id=other.id) as quiet:
        assert await hear(listener, 6) == mine
        message = await bus.post(one, "live")
        assert [e.message_id for e in await hear(listener, 1)] == [message.id]
        assert await quiet.next(timeout=0.05) == []


@pytest.mark.parametrize("scope", ["everything", "one thread"])
async def test_a_listener_holds_few_bytes_and_misses_nothing(bus: Bus, scope: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feed, "MOST_BYTES", 5_000)
    thread = await bus.thread()
    begun = await bus.last_event()
    async with bus.here.feed(thread_id=thread.id if scope == "one thread" else None) as listener:
        for n in range(12):
            await bus.post(thread, "x" * (9_000 if n == 5 else 1_000))
            assert sum(len(event.payload) for event in listener._buffer) <= 5_000
        heard: list[int] = []
        async with asyncio.timeout(PATIENCE):
            while len(heard) < 12:
                batch = await listener.next(timeout=1)
                assert len(batch) == 1 or sum(len(event.payload) for event in batch) <= 5_000
                heard += ids(batch)
        assert heard == list(range(begun + 1, begun + 13))
        message = await bus.post(thread, "live")
        assert [event.message_id for event in await hear(listener, 1)] == [message.id]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("scope", ["everything", "one thread"])
async def test_slow_listeners_miss_nothing_and_hear_nothing_twice(
    bus: Bus, seed: int, scope: str, monkeypatch: pytest.MonkeyPatch
):
    """They hold little, so that they fall back to the log again and again while others go on posting."""
    monkeypatch.setattr(feed, "MOST_BUFFERED", 8)
    monkeypatch.setattr(feed, "READ_AT_ONCE", 5)
    dice = random.Random(seed)
    rooms = [await bus.thread() for _ in range(3)]
    thread_id = rooms[0].id if scope == "one thread" else None
    begun = await bus.last_event()
    pauses = iter(lambda: dice.choice([0, 0, 0, 0.001, 0.01, 0.03]), None)

    async def listen(after: int | None, ready: asyncio.Event, last: asyncio.Future[int]) -> list[int]:
        heard: list[int] = []
        async with bus.here.feed(after=after, thread_id=thread_id) as listener:
            ready.set()
            while not (last.done() and last.result() in heard):
                heard += ids(await listener.next(timeout=0.1))
                await asyncio.sleep(next(pauses))
            return heard + ids(await listener.next(timeout=0.1))  # nothing more, or it is heard twice

    async def post_on(number: int) -> None:
        for n in range(40):
            await bus.post(rooms[(number + n) % 3], f"word {number} {n}")

    last, readies = asyncio.Future[int](), [asyncio.Event() for _ in range(4)]
    tasks = [asyncio.create_task(listen(None if n % 2 else begun, ready, last)) for n, ready in enumerate(readies)]
    for ready in readies:
        await ready.wait()
    await asyncio.gather(*(post_on(n) for n in range(5)))
    wanted = ids([e for e in await bus.log(begun) if thread_id in (None, e.thread_id)])
    last.set_result(wanted[-1])
    async with asyncio.timeout(PATIENCE):
        heard = await asyncio.gather(*tasks)
    assert len(wanted) >= 60
    assert heard == [wanted] * 4


async def test_a_listener_whose_last_event_was_deleted_is_told_to_reset(bus: Bus):
    thread = await bus.thread()
    for n in range(20):
        await bus.post(thread, f"word{n}")
    await bus.here.change(lambda change: events.forget_old(change, 5))

    async with bus.here.feed(after=3) as listener:
        (reset,) = await hear(listener, 1)
        assert (reset.type, reset.id) == ("reset", 21)
        await bus.post(thread, "live")
        assert ids(await hear(listener, 1)) == [22]
    async with bus.here.feed(after=16) as listener:  # the last place that can still be replayed
        assert ids(await hear(listener, 6)) == [17, 18, 19, 20, 21, 22]
    async with bus.here.feed(after=15) as listener:
        assert [e.type for e in await hear(listener, 1)] == ["reset"]


async def test_a_listener_with_an_event_id_from_the_future_is_told_to_reset(bus: Bus):
    """The database was replaced by an older copy, or the id is made up."""
    thread = await bus.thread()
    async with bus.here.feed(after=1_000) as listener:
        assert [(e.type, e.id) for e in await hear(listener, 1)] == [("reset", 1)]
        await bus.post(thread, "live")
        assert ids(await hear(listener, 1)) == [2]


async def test_a_quiet_thread_is_not_reset_because_others_talk(bus: Bus):
    quiet, busy = await bus.thread(), await bus.thread()
    async with bus.here.feed(thread_id=quiet.id) as listener:
        for n in range(20):
            await bus.post(busy, f"word{n}")
        await bus.here.change(lambda change: events.forget_old(change, 5))
        message = await bus.post(quiet, "at last")
        assert [e.message_id for e in await hear(listener, 1)] == [message.id]


async def test_forgetting_everything_keeps_counting(bus: Bus):
    thread = await bus.thread()
    await bus.post(thread, "one")
    await bus.here.change(lambda change: events.forget_old(change, 0))
    assert await bus.log() == []
    async with bus.here.feed(after=2) as listener:
        await bus.post(thread, "two")
        assert ids(await hear(listener, 1)) == [3]


async def test_two_on_the_same_database_hear_each_other(bus: Bus, settings: Settings):
    """As two processes would: each commits on its own connections."""
    thread = await bus.thread()
    async with opened(settings) as other, bus.here.feed() as here, other.here.feed() as there:
        one = await bus.post(thread, "from here")
        assert [e.message_id for e in await hear(there, 1)] == [one.id]
        two = await other.post(thread, "from there")
        assert [e.message_id for e in await hear(here, 2)] == [one.id, two.id]
        assert [e.message_id for e in await hear(there, 1)] == [two.id]


async def test_two_on_the_same_database_posting_at_once_stay_in_one_order(bus: Bus, settings: Settings):
    thread = await bus.thread()
    async with opened(settings) as other, bus.here.feed() as here, other.here.feed() as there:
        answers = await asyncio.gather(
            *(bus.post(thread, f"here {n}") for n in range(60)), *(other.post(thread, f"there {n}") for n in range(60))
        )
        assert sorted(m.seq for m in answers) == list(range(1, 121))
        heard = [await hear(here, 120), await hear(there, 120)]
        assert ids(heard[0]) == ids(heard[1]) == list(range(2, 122))
        assert [e.message_id for e in heard[0]] == [m.id for m in await bus.messages(thread)]


async def test_listeners_come_and_go(bus: Bus):
    """The last one to leave ends the watch, the next one begins it again; nothing is lost in between."""
    thread = await bus.thread()
    at = await bus.last_event()
    heard: list[int] = []
    posting_on = asyncio.gather(*(_slowly(bus, thread, n) for n in range(40)))
    async with asyncio.timeout(PATIENCE):
        while len(heard) < 40:
            async with bus.here.feed(after=at) as listener:
                heard += ids(await listener.next(timeout=0.5))
                at = heard[-1] if heard else at
    await posting_on
    assert heard == list(range(2, 42))


async def _slowly(bus: Bus, thread, number: int) -> None:
    await asyncio.sleep(number * 0.005)
    await bus.post(thread, f"word{number}")


async def test_listeners_end_when_the_workspace_closes(bus: Bus):
    async with bus.here.feed() as listener:
        waiting = asyncio.create_task(listener.next(timeout=2 * PATIENCE))
        await asyncio.sleep(0.01)
        bus.here.dismiss_listeners()
        with pytest.raises(FeedClosed):
            async with asyncio.timeout(PATIENCE):
                await waiting
