"""The bus without a door: operations on an open workspace, as short as tests want them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from uuid import uuid4

from tests.helpers import PATIENCE

from palaver.model.events import Event
from palaver.model.messages import Message, Thread
from palaver.model.people import Caller
from palaver.operations.bus import messages, reactions, threads
from palaver.operations.operation import Operation
from palaver.operations.search import bus_search
from palaver.search.match import match
from palaver.settings import Settings
from palaver.store.bus import events
from palaver.store.bus.feed import Listener
from palaver.store.engines.database import Change, Reader, Scope
from palaver.store.engines.named_sql import translated
from palaver.store.engines.postgres.engine import HELPERS, PostgresEngine
from palaver.store.workspaces import Workspace, open_engine
from palaver.text.query import Query

HUMAN = Caller(kind="human")


def open_workspace(settings: Settings, name: str = "default") -> Workspace:
    return Workspace(name, open_engine(settings, name), settings)


class Bus:
    def __init__(self, here: Workspace) -> None:
        self.here = here

    async def do(self, operation: Operation, /, **ask: Any) -> Any:
        return await operation.perform(self.here, HUMAN, operation.request(**ask))

    async def thread(self, topic: str | None = None) -> Thread:
        thread: Thread = await self.do(threads.create_thread, topic=topic or f"topic {uuid4().hex}")
        return thread

    async def post(self, thread: Thread, content: str, **more: Any) -> Message:
        message: Message = await self.do(messages.post_message, thread_id=thread.id, content=content, **more)
        return message

    async def edit(self, message: Message, content: str) -> None:
        await self.do(messages.edit_message, message_id=message.id, content=content)

    async def delete(self, message: Message) -> None:
        await self.do(messages.delete_message, message_id=message.id)

    async def react(self, message: Message, label: str) -> None:
        await self.do(reactions.react, message_id=message.id, reaction=label)

    async def messages(self, thread: Thread) -> list[Message]:
        listed: messages.Messages = await self.do(messages.list_messages, thread_id=thread.id, limit=1000)
        return listed.messages

    async def state(self, thread: Thread) -> Thread:
        found: Thread = await self.do(threads.get_thread, thread_id=thread.id)
        return found

    async def found(self, expression: str, thread: Thread | None = None) -> set[str]:
        """The ids of the messages a search finds."""
        scope = {"thread_id": thread.id} if thread else {}
        hits: bus_search.BusHits = await self.do(bus_search.search_messages, query=expression, limit=200, **scope)
        return {hit.message_id for hit in hits.results}

    async def hits(self, expression: str) -> list[str]:
        """The same, best first."""
        hits: bus_search.BusHits = await self.do(bus_search.search_messages, query=expression, limit=200)
        return [hit.message_id for hit in hits.results]

    async def posts(self, thread: Thread, contents: Sequence[str]) -> None:
        """Many at once, in whatever order they arrive."""
        for first in range(0, len(contents), 100):
            await asyncio.gather(*(self.post(thread, content) for content in contents[first : first + 100]))

    async def passages_found(self, query: Query, *, titles: bool = False) -> set[int]:
        scope = Scope(("bus",), bodies=not titles, titles=titles)
        finding = await self.here.read(lambda read: match(read, query, scope, 2000))
        assert not finding.has_more
        return {hit.passage_id for hit in finding.hits}

    async def log(self, after: int = 0) -> list[Event]:
        return await self.here.read(lambda read: events.after(read, after, None, 100_000))

    async def last_event(self) -> int:
        return (await self.here.read(events.bounds))[1]


def posting(thread: Thread, content: str) -> Callable[[Change], Message]:
    """The work of a post, to be done inside a change of the test's own."""

    def work(change: Change) -> Message:
        ask = messages.PostMessage(thread_id=thread.id, content=content)
        message: Message = messages.post_message.work(change, HUMAN, ask)
        return message

    return work


def editing(message_id: str, content: str) -> Callable[[Change], Any]:
    ask = messages.EditMessage(message_id=message_id, content=content)
    return lambda change: messages.edit_message.work(change, HUMAN, ask)


def deleting(message_id: str) -> Callable[[Change], Any]:
    ask = messages.OneMessage(message_id=message_id)
    return lambda change: messages.delete_message.work(change, HUMAN, ask)


@contextmanager
def all_at_once(here: Workspace) -> Any:
    """What is handed over inside the block waits, and is then done together: in one transaction."""
    gate = threading.Event()
    held = asyncio.ensure_future(here.change(lambda change: gate.wait(PATIENCE)))
    try:
        yield held
    finally:
        gate.set()


async def together(here: Workspace, *jobs: Callable[[Change], Any]) -> list[Any]:
    """Do all of it in a shared transaction; what each gave or raised, in order."""
    with one_writer(here):
        with all_at_once(here) as held:
            await asyncio.sleep(0)  # the one who holds the door goes first
            tasks = [asyncio.ensure_future(here.change(job)) for job in jobs]
            await asyncio.sleep(0.01)
        done = await asyncio.gather(*tasks, return_exceptions=True)
        await held
    return done


@contextmanager
def one_writer(here: Workspace) -> Any:
    """PostgreSQL's writer gets no helpers. While it is held they would take changes out of the group."""
    engine = here.engine
    if not isinstance(engine, PostgresEngine):
        yield
        return
    with engine._start_lock:
        engine._helpers += HELPERS
    try:
        yield
    finally:
        with engine._start_lock:
            engine._helpers -= HELPERS


async def hear(listener: Listener, count: int, seconds: float = PATIENCE) -> list[Event]:
    """The next `count` events (or more, when the last batch held more)."""
    heard: list[Event] = []
    async with asyncio.timeout(seconds):
        while len(heard) < count:
            heard += await listener.next(timeout=1.0)
    return heard


@asynccontextmanager
async def opened(settings: Settings, name: str = "default") -> AsyncIterator[Bus]:
    here = await asyncio.to_thread(open_workspace, settings, name)
    try:
        yield Bus(here)
    finally:
        here.dismiss_listeners()
        await asyncio.to_thread(here.close)


def rows(read: Reader, sql: str, **params: Any) -> list[dict[str, Any]]:
    """A statement of the test's own, not one of the store's."""
    return read.connection.fetch(translated(sql, read.connection.dialect.name), params)
