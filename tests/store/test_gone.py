"""What was read may be gone when the next change refers to it: a thread is deleted while somebody catches up."""

from __future__ import annotations

from tests.store.bus import Bus, rows

from palaver.operations.bus import threads as bus_threads
from palaver.store.bus import deliveries, messages, read_marks, threads
from palaver.store.bus.deliveries import HookSession
from palaver.store.bus.read_marks import Mention, ThreadReader

ANN = ThreadReader(None, "ann")


async def test_a_thread_that_is_deleted_while_somebody_reads_it_gets_no_mark(bus: Bus):
    thread, kept = await bus.thread(), await bus.thread()
    ids = [(await bus.here.read(lambda read: threads.must_exist(read, one.id))).document_id for one in (thread, kept)]  # noqa: B023
    await bus.do(bus_threads.delete_thread, thread_id=thread.id)
    for id in ids:
        await bus.here.change(lambda change: read_marks.advance(change, ANN.key, id, 1))  # noqa: B023
    marks = await bus.here.read(lambda read: rows(read, "SELECT document_id FROM read_marks"))
    assert [mark["document_id"] for mark in marks] == [ids[1]]


async def test_a_message_that_is_deleted_before_it_is_shown_is_left_out(bus: Bus):
    thread, kept = await bus.thread(), await bus.thread()
    posted = [await bus.post(one, "@ann look") for one in (thread, kept)]
    found = [await bus.here.read(lambda read: messages.must_exist(read, one.id)) for one in posted]  # noqa: B023
    mentions = [Mention(one.passage_id, one.document_id, "topic", one.message, False, False) for one in found]
    session = HookSession("session", ANN)
    await bus.do(bus_threads.delete_thread, thread_id=thread.id)
    context = await bus.here.read(lambda read: deliveries.context_of(read, session, 1, confirms=False))
    await bus.here.change(lambda change: deliveries.offer(change, context, "prompt", mentions))
    offered = await bus.here.read(lambda read: rows(read, "SELECT passage_id FROM delivered_messages"))
    assert [row["passage_id"] for row in offered] == [found[1].passage_id]
