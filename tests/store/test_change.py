"""A change commits its rows, its events and its index rows together, or nothing of it."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.helpers import PATIENCE
from tests.store.bus import Bus, deleting, editing, opened, posting, rows, together

from palaver.errors import NotFound, PalaverError
from palaver.model.events import Event
from palaver.operations.bus import messages, reactions, threads
from palaver.settings import Settings
from palaver.store.engines.database import Change, IndexRow, Reader


class Spoiled(Exception):
    pass


def raise_after(work):
    def spoiled(change: Change) -> None:
        work(change)
        raise Spoiled

    return spoiled


def index_nonsense(change: Change) -> None:
    change.index(10**9, IndexRow(("bus",), b"x", ""), is_new=True)  # type: ignore[arg-type]


def tell_nonsense(change: Change) -> None:
    change.tell(Event("msg.new", None, None))  # type: ignore[arg-type]


async def test_a_change_is_there_as_a_whole(bus: Bus):
    thread = await bus.thread()
    message = await bus.post(thread, "heliotrope")

    assert await bus.messages(thread) == [message]
    assert await bus.found("heliotrope") == {message.id}
    assert [(e.id, e.type, e.message_id) for e in await bus.log()] == [
        (1, "thread.new", None),
        (2, "msg.new", message.id),
    ]


async def test_a_post_can_be_read_by_other_processes_when_it_is_answered(bus: Bus, settings: Settings):
    """Also for another process, at once: the answer comes after the commit."""
    thread = await bus.thread()
    async with opened(settings) as other:
        for n in range(30):
            message = await bus.post(thread, f"word{n}")
            assert await other.do(messages.get_message, message_id=message.id) == message
            assert await other.found(f"word{n}") == {message.id}


@pytest.mark.parametrize("spoil", ["the work", "its index rows", "its events"])
async def test_a_change_that_fails_leaves_nothing(bus: Bus, spoil: str):
    thread = await bus.thread()
    first = await bus.post(thread, "heliotrope one")
    post = posting(thread, "heliotrope two")

    def work(change: Change) -> None:
        post(change)
        if spoil == "the work":
            raise Spoiled
        elif spoil == "its index rows":
            index_nonsense(change)
        else:
            tell_nonsense(change)

    with pytest.raises((Spoiled, TypeError, AttributeError)):
        await bus.here.change(work)

    assert await bus.messages(thread) == [first]
    assert await bus.found("heliotrope") == {first.id}
    assert await bus.last_event() == 2
    assert (await bus.state(thread)).message_count == 1
    second = await bus.post(thread, "heliotrope three")
    assert second.seq == 2
    assert [e.id for e in await bus.log()] == [1, 2, 3]
    assert await bus.found("heliotrope") == {first.id, second.id}


async def test_an_error_reaches_the_caller_as_it_was_raised(bus: Bus):
    with pytest.raises(NotFound, match="Thread 'nowhere' not found"):
        await bus.do(messages.post_message, thread_id="nowhere", content="x")


async def test_a_cancelled_post_leaves_no_gap_in_the_numbers(settings: Settings):
    async with opened(settings) as bus:
        thread = await bus.thread()
        for round in range(20):
            task = asyncio.create_task(bus.post(thread, f"said {round}"))
            await asyncio.sleep(round % 4 * 0.0005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await bus.post(thread, "the last word")
    async with opened(settings) as bus:  # closing waits for those that were cancelled while they were being stored
        seen = await bus.last_event()
        said = await bus.messages(thread)
        assert [m.seq for m in said] == list(range(1, seen))
        assert await bus.found("said OR word") == {m.id for m in said}
        assert [e.message_id for e in await bus.log()] == [None, *(m.id for m in said)]


async def test_many_at_once_get_numbers_without_gaps_or_twins(bus: Bus):
    rooms = [await bus.thread() for _ in range(5)]
    answers = await asyncio.gather(*(bus.post(rooms[n % 5], f"word{n}") for n in range(200)))

    for number, thread in enumerate(rooms):
        mine = answers[number::5]
        assert sorted(m.seq for m in mine) == list(range(1, 41))
        said = await bus.messages(thread)
        assert [m.seq for m in said] == list(range(1, 41))
        assert {m.id for m in said} == {m.id for m in mine}
        state = await bus.state(thread)
        assert (state.current_seq, state.message_count) == (40, 40)
    log = await bus.log()
    assert [e.id for e in log] == list(range(1, 206))
    for thread in rooms:  # told in the order of their seq
        said = await bus.messages(thread)
        assert [e.message_id for e in log if e.thread_id == thread.id and e.message_id] == [m.id for m in said]


async def test_the_order_of_event_ids_is_the_order_of_commits(bus: Bus):
    """Whoever reads the log while others write sees it grow only at its end: what was read once stays complete."""
    rooms = [await bus.thread() for _ in range(8)]
    gaps: list[tuple[int, int]] = []

    def look(read: Reader) -> None:
        (row,) = rows(read, "SELECT count(*) AS count, coalesce(max(id), 0) AS last FROM events")
        if row["count"] != row["last"]:
            gaps.append((row["count"], row["last"]))

    looks = 0

    async def post_on(number: int) -> None:
        for n in range(500):
            if looks < 40:
                await bus.post(rooms[number], f"word {n}")

    writing = asyncio.gather(*(post_on(n) for n in range(8)))
    while not writing.done():
        await bus.here.read(look)
        looks += 1
    await writing
    assert gaps == []
    assert looks > 10


async def test_all_statements_of_a_read_see_the_same_snapshot(bus: Bus):
    thread = await bus.thread()
    message = await bus.post(thread, "heliotrope")
    looked, changed = threading.Event(), threading.Event()

    def look_twice(read: Reader) -> tuple[int, int]:
        before = rows(read, "SELECT count(*) AS n FROM passages")[0]["n"]
        looked.set()
        assert changed.wait(PATIENCE)
        return before, rows(read, "SELECT count(*) AS n FROM passages")[0]["n"]

    looking = asyncio.create_task(bus.here.read(look_twice))
    await asyncio.to_thread(looked.wait, PATIENCE)
    await bus.delete(message)
    changed.set()
    before, after = await looking
    assert before == after == 2


async def test_in_a_shared_transaction_one_bad_job_fails_alone(bus: Bus):
    thread = await bus.thread()
    good = [posting(thread, f"heliotrope {n}") for n in range(6)]
    lost = raise_after(posting(thread, "heliotrope lost"))
    jobs = [*good[:2], lost, *good[2:4], tell_nonsense, index_nonsense, *good[4:]]
    done = await together(bus.here, *jobs)

    assert [n for n, answer in enumerate(done) if isinstance(answer, Exception)] == [2, 5, 6]
    kept = [answer for answer in done if not isinstance(answer, BaseException)]
    assert sorted(m.seq for m in kept) == [1, 2, 3, 4, 5, 6]
    assert {m.id for m in await bus.messages(thread)} == {m.id for m in kept}
    assert await bus.found("heliotrope") == {m.id for m in kept}
    assert [e.id for e in await bus.log()] == list(range(1, 8))


async def test_what_is_deleted_and_posted_in_one_transaction_is_not_mixed_up(bus: Bus):
    """A new passage may get the row of one that has just gone: it must not inherit its words."""
    thread = await bus.thread()
    for round in range(3):
        old = await bus.post(thread, f"heliotrope{round}")
        _, new = await together(bus.here, deleting(old.id), posting(thread, f"mignonette{round}"))
        assert await bus.found(f"heliotrope{round}") == set()
        assert await bus.found(f"mignonette{round}") == {new.id}


@pytest.mark.parametrize("seed", range(3))
async def test_neighbours_in_a_shared_transaction_do_not_disturb_each_other(bus: Bus, seed: int):
    dice = random.Random(seed)
    thread = await bus.thread()
    kept: dict[str, str] = {}
    for round in range(6):
        jobs: list[tuple[str, str, str, Callable[[Change], Any]]] = []
        free = list(kept)
        for n in range(8):
            fresh = f"w{round}x{n}"
            action = dice.choice(["post", "post", "edit", "delete"])
            if action == "post" or not free:
                jobs.append(("post", "", fresh, posting(thread, fresh)))
                continue
            id = free.pop(dice.randrange(len(free)))
            if action == "edit":
                jobs.append((action, id, fresh, editing(id, fresh)))
            else:
                jobs.append((action, id, fresh, deleting(id)))
        words = {fresh for _, _, fresh, _ in jobs} | set(kept.values())
        done = await together(bus.here, *(job[3] for job in jobs))
        for (action, id, fresh, _), answer in zip(jobs, done, strict=True):
            assert not isinstance(answer, BaseException), answer
            if action == "post":
                kept[answer.id] = fresh
            elif action == "edit":
                kept[id] = fresh
            else:
                del kept[id]
        assert {m.id: m.content for m in await bus.messages(thread)} == kept
        for word in words:
            assert await bus.found(word) == {id for id, content in kept.items() if content == word}, word


async def test_a_topic_opened_by_many_at_once_is_one_thread(bus: Bus):
    answers = await asyncio.gather(*(bus.thread("the same topic") for _ in range(20)))
    assert len({thread.id for thread in answers}) == 1
    assert [e.type for e in await bus.log()] == ["thread.new"]


async def test_a_retried_post_is_stored_once_even_when_the_retries_cross(bus: Bus):
    thread = await bus.thread()
    answers = await asyncio.gather(*(bus.post(thread, f"try {n}", idempotency_key="k") for n in range(20)))
    assert len({m.id for m in answers}) == 1
    assert [m.seq for m in await bus.messages(thread)] == [1]
    assert [e.type for e in await bus.log()] == ["thread.new", "msg.new"]


async def test_of_many_who_expect_the_same_last_seq_one_posts(bus: Bus):
    thread = await bus.thread()
    answers = await asyncio.gather(
        *(bus.post(thread, f"try {n}", expected_last_seq=0) for n in range(20)), return_exceptions=True
    )
    assert len([a for a in answers if not isinstance(a, BaseException)]) == 1
    assert all(
        isinstance(a, PalaverError) and a.code == "SEQ_MISMATCH" for a in answers if isinstance(a, BaseException)
    )
    assert [m.seq for m in await bus.messages(thread)] == [1]


async def test_a_message_is_deleted_once_however_many_try(bus: Bus):
    thread = await bus.thread()
    for _ in range(10):
        message = await bus.post(thread, "heliotrope")
        answers = await asyncio.gather(*(bus.delete(message) for _ in range(4)), return_exceptions=True)
        assert sum(answer is None for answer in answers) == 1, answers
        assert all(answer is None or isinstance(answer, NotFound) for answer in answers)
    assert (await bus.state(thread)).message_count == 0
    assert [e.type for e in await bus.log()].count("msg.delete") == 10


async def test_an_edit_and_a_delete_that_cross_leave_no_word(bus: Bus):
    thread = await bus.thread()
    for n in range(10):
        message = await bus.post(thread, f"before{n}")
        answers = await asyncio.gather(
            bus.edit(message, f"after{n}"), bus.delete(message), bus.react(message, "agree"), return_exceptions=True
        )
        assert all(answer is None or isinstance(answer, PalaverError) for answer in answers), answers
        assert await bus.found(f"before{n} OR after{n}") == set()
    assert await bus.messages(thread) == []


async def test_nothing_is_posted_to_a_thread_after_it_was_closed(bus: Bus):
    for n in range(8):
        thread = await bus.thread()
        posts = [bus.post(thread, f"word {k}") for k in range(12)]
        posts.insert(n, bus.do(threads.close_thread, thread_id=thread.id))
        answers = await asyncio.gather(*posts, return_exceptions=True)
        assert all(not isinstance(a, BaseException) or isinstance(a, PalaverError) for a in answers), answers
        told = [e.type for e in await bus.log() if e.thread_id == thread.id]
        assert told[-1] == "thread.state", "a message was told after the thread was closed"


async def test_a_thread_that_is_deleted_while_others_post_is_gone_with_all_its_words(bus: Bus):
    for n in range(6):
        thread = await bus.thread()
        jobs = [bus.post(thread, f"heliotrope {k}") for k in range(12)]
        jobs.insert(3 + n, bus.do(threads.delete_thread, thread_id=thread.id))
        answers = await asyncio.gather(*jobs, return_exceptions=True)
        assert all(not isinstance(a, BaseException) or isinstance(a, PalaverError) for a in answers), answers
        assert await bus.found("heliotrope") == set()
        told = [e for e in await bus.log() if e.thread_id == thread.id]
        assert told[-1].type == "thread.deleted", "something was told of a thread after it was deleted"
        assert all(b"heliotrope" not in e.payload for e in told), "the log still has the words"


async def test_searching_while_messages_go_away_never_fails(bus: Bus):
    thread = await bus.thread()

    searches = 0

    async def come_and_go(number: int) -> None:
        for n in range(500):
            if searches > 100:
                return
            message = await bus.post(thread, f"heliotrope {number} {n}")
            await bus.react(message, "agree")
            await bus.do(reactions.unreact, message_id=message.id, reaction="agree")
            await bus.delete(message)

    busy = asyncio.gather(*(come_and_go(n) for n in range(4)))
    while not busy.done():
        assert len(await bus.found("heliotrope")) <= 4
        searches += 1
    await busy
    assert searches > 20
    assert await bus.found("heliotrope") == set()


async def test_writers_at_the_same_moment_share_a_commit(bus: Bus):
    thread = await bus.thread()
    before = bus.here.engine.stats().commits
    answers = await together(bus.here, *(posting(thread, f"word{n}") for n in range(40)))
    assert [m.seq for m in answers] == list(range(1, 41))
    assert bus.here.engine.stats().commits - before < 10
    assert [m.id for m in await bus.messages(thread)] == [m.id for m in answers]


async def test_who_is_refused_before_anything_was_written_does_not_cost_the_others_their_commit(bus: Bus):
    thread = await bus.thread()
    missing = replace(thread, id="nowhere")
    before = bus.here.engine.stats().commits
    done = await together(bus.here, *(posting(missing if n == 2 else thread, f"word{n}") for n in range(5)))
    assert [n for n, answer in enumerate(done) if isinstance(answer, NotFound)] == [2]
    assert bus.here.engine.stats().commits - before <= 3
    assert len(await bus.messages(thread)) == 4


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)  # an SQLite file has one writer
async def test_a_long_change_does_not_hold_up_the_others_on_postgres(bus: Bus):
    thread = await bus.thread()
    begun, enough = threading.Event(), threading.Event()

    def take_long(change: Change) -> None:
        begun.set()
        assert enough.wait(PATIENCE)

    long = asyncio.create_task(bus.here.change(take_long))
    await asyncio.to_thread(begun.wait, PATIENCE)
    async with asyncio.timeout(PATIENCE / 2):
        answers = await asyncio.gather(*(bus.post(thread, f"word{n}") for n in range(6)))
    assert sorted(m.seq for m in answers) == [1, 2, 3, 4, 5, 6]
    enough.set()
    await long


async def test_two_processes_that_share_commits_do_not_wait_for_each_other(bus: Bus, settings: Settings):
    """Each group locks several threads, in whatever order its jobs came."""
    rooms = [await bus.thread() for _ in range(4)]
    async with opened(settings) as other:
        for _ in range(3):
            here = [posting(room, "here") for room in rooms * 3]
            there = [posting(room, "there") for room in rooms[::-1] * 3]
            async with asyncio.timeout(PATIENCE / 2):
                done = await asyncio.gather(together(bus.here, *here), together(other.here, *there))
            assert [answer for answers in done for answer in answers if isinstance(answer, BaseException)] == []
    for room in rooms:
        assert [m.seq for m in await bus.messages(room)] == list(range(1, 19))
