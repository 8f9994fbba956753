"""Workspaces: each has its own database and gives no access to another. Also finds and opens databases."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from itertools import accumulate, takewhile
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from palaver.errors import PalaverError, Refused
from palaver.model.people import Agent, Caller
from palaver.model.sessions import Owner, Turn
from palaver.model.times import now
from palaver.settings import Settings
from palaver.store.admin import check_state
from palaver.store.admin.check_state import CheckState
from palaver.store.admin.keyring import Keyring
from palaver.store.bus import events
from palaver.store.bus.feed import Feed, FeedClosed, Listener
from palaver.store.bus.read_marks import PendingMarks, store_pending
from palaver.store.engines.database import (
    INDEXED_AT_ONCE,
    Change,
    Engine,
    PutOff,
    Reader,
    SearchReader,
)
from palaver.store.library import documents
from palaver.store.search.turns import SEARCHES_AT_ONCE, Turns
from palaver.store.sessions.forgotten import Forgotten
from palaver.store.sessions.outlines import RecentOutlines
from palaver.store.sessions.transcripts import Transcripts

T = TypeVar("T")

DEFAULT = "default"
STORE_SOON_SECONDS = 0.2
"""How long an answer waits for something that it can do without. A writer that imports may take longer."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


class Workspace:
    """The data of one workspace: `read`, `change`, `feed`, transcripts and search sessions."""

    def __init__(self, name: str, engine: Engine, settings: Settings, keyring: Keyring | None = None) -> None:
        self.name = name
        self.settings = settings
        self.keyring = keyring  # None for a workspace that is opened without a server
        self.engine = engine
        self._feed = Feed(engine)
        self.done: Counter[tuple[str, str, str]] = Counter()
        """Counts since the start: ('request', 'GET', '200'), ('operation', 'post_message', 'done')."""
        self.calls: dict[tuple[str, str], deque[float]] = {}
        """The times of the last calls, by caller and rate-limited operation, on the monotonic clock."""
        self.session_turns = Turns(1)
        """Searches of one search session: each leaves out what the one before it showed."""
        self._turns = Turns(SEARCHES_AT_ONCE)
        self._storing: set[asyncio.Future[Any]] = set()
        self._pending_marks: PendingMarks = {}
        self.missing_uploads: list[str] = []
        """Images that messages show, but whose files were missing at the last check."""
        self.check_state = CheckState(check_state.path_of(settings.data, name), name)
        """What the background check of the server found."""
        self.has_vectors_to_make = False
        """Whether the background process has more vectors to make, as far as this process knows."""
        self.is_index_filled = False
        """Whether this process has completed the search index since it opened the workspace."""
        self.index_check_due = 0.0
        """When the whole search index is to be checked again, on the monotonic clock."""
        self.outlines: RecentOutlines[Any] = RecentOutlines()
        """The steps of the sessions that were read last."""
        self.transcripts = Transcripts(settings.data / "sessions" / name)
        self.carrying_over = asyncio.Lock()
        """Held while sessions of earlier versions are filed anew."""
        self.forgotten = Forgotten(self.transcripts.folder / "forgotten.jsonl")
        self.known_agents: list[Agent] = []
        """The agents of this workspace when the transcripts were compared last, for recording without the database."""

    @property
    def is_default(self) -> bool:
        return self.name == DEFAULT

    async def read(self, work: Callable[[Reader], T], seconds: float | None = None) -> T:
        """Run work on a consistent snapshot, for at most so many seconds if a caller waits for it."""
        return await self.engine.read(work, seconds)

    async def search(self, caller: Caller, work: Callable[[SearchReader], T]) -> T:
        """Run a search on a consistent snapshot, within the time limit. Searches of one caller take turns."""
        async with self._turns.of(caller.counted_as):
            return await self.engine.read(work, self.settings.search_timeout, is_search=True)

    async def change(self, work: Callable[[Change], T]) -> T:
        """Run work in one transaction. When this returns, it is on disk and its events are being sent.

        The index rows of long texts follow in transactions of their own, before this returns.
        """
        put_off: dict[int, PutOff] = {}

        def with_little_indexing(change: Change) -> T:
            change.room = INDEXED_AT_ONCE
            result = work(change)
            put_off.clear()  # the engine may run the work several times
            put_off.update(change.put_off)
            return result

        result = await self.engine.change(with_little_indexing)
        if put_off:
            await asyncio.shield(self._keep(self._index(put_off)))
        return result

    async def _index(self, put_off: dict[int, PutOff]) -> None:
        """Index texts that were put off. If that fails, the upkeep finds them in the tables."""
        left = list(put_off)
        try:
            with self._import_lock():  # until they are indexed, no check reports them as missing
                while left:
                    sizes = accumulate(put_off[id].size for id in left)
                    count = max(1, sum(1 for _ in takewhile(lambda size: size <= INDEXED_AT_ONCE, sizes)))
                    some, left = left[:count], left[count:]
                    made = await self.engine.read(partial(documents.unindexed, passage_ids=some))
                    await self.engine.change(partial(documents.index_put_off, made=made, put_off=put_off))
        except PalaverError:
            self.index_check_due = 0.0

    async def change_beside(self, work: Callable[[Change], T]) -> T:
        """Run long work in one transaction. Where the engine can, other changes do not wait for it."""
        return await self.engine.change(work, is_long=True)

    def note_read(self, reader: str, thread_id: str, seq: int) -> None:
        """Remember that somebody has read a thread up to this message. It is stored a moment later."""
        marks = self._pending_marks
        marks[reader, thread_id] = max(seq, marks.get((reader, thread_id), 0))

    async def store_read_marks(self) -> None:
        """Store the pending read marks now. If the database cannot be reached, they are lost: messages stay unread."""
        taken, self._pending_marks = self._pending_marks, {}
        if taken:
            with suppress(PalaverError):
                await self.change(partial(store_pending, marks=taken))

    async def store_soon(self, work: Callable[[Change], None], *, seconds: float = STORE_SOON_SECONDS) -> None:
        """Store something that an answer can do without. Waits a moment only, or not at all; a failure is ignored."""
        storing = self._keep(self.change(work))
        if seconds:
            await asyncio.wait((storing,), timeout=seconds)

    def _keep(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        """Run work to its end, even if its caller goes away."""
        storing = asyncio.ensure_future(work)
        self._storing.add(storing)
        storing.add_done_callback(self._storing.discard)
        storing.add_done_callback(lambda done: done.cancelled() or done.exception())
        return storing

    @asynccontextmanager
    async def bulk_writes(self) -> AsyncIterator[None]:
        """Set up the engine for many writes while the block lasts. The background check of every process waits."""
        with self._import_lock():
            await self.change(lambda change: change.run("begin_bulk_writes"))
            try:
                yield
            finally:
                with suppress(PalaverError):  # an error in the block is more important
                    await self.change(lambda change: change.run("end_bulk_writes"))

    @contextmanager
    def _import_lock(self) -> Iterator[None]:
        """Hold a shared lock on a file, by which `is_importing` sees the import. It ends with the process."""
        try:
            file = self._open_lock()
        except OSError:  # a home that is read-only
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield
        finally:
            os.close(file)

    def is_importing(self) -> bool:
        """Does a process on this machine import a large file into this workspace?"""
        try:
            file = self._open_lock()
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(file)
        return False

    def _open_lock(self) -> int:
        path = self.check_state.path.with_suffix(".import")
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def feed(self, after: int | None = None, thread_id: str | None = None) -> Listener:
        """Listen to events as they are committed, from `after` or from now: `async with here.feed() as listener`."""
        return Listener(self._feed, after, thread_id)

    async def wait_until(
        self,
        is_enough: Callable[[T], bool],
        look: Callable[[Reader], T],
        seconds: float,
        *,
        thread_id: str | None = None,
        look_again: float = inf,
    ) -> T:
        """What `look` reads: once it is enough, after so many seconds, or when the server closes. It looks again after
        each event, of one thread if it is named, and every `look_again` seconds."""
        until = monotonic() + seconds
        found = await self.read(look)
        if not is_enough(found) and seconds:
            async with self.feed(thread_id=thread_id) as listener:
                with suppress(FeedClosed):
                    while not is_enough(found := await self.read(look)) and (left := until - monotonic()) > 0:
                        await listener.next(min(left, look_again))
        return found

    async def last_event_id(self) -> int:
        return await self.read(events.last_id)

    async def ping(self) -> None:
        """Raise an error unless the database answers readers and writers."""
        await self.read(events.last_id)
        await self.change(events.last_id)

    @property
    def listeners(self) -> int:
        return self._feed.listening

    def dismiss_listeners(self) -> None:
        """End all listeners, because the server is closing."""
        self._feed.close()

    def keep_discarded(self, sessions: list[tuple[Owner, str, list[Turn]]]) -> None:
        """Write turns that are about to leave the index into the `discarded` folder, as transcripts."""
        folder = self.settings.data / "discarded" / self.name / now().strftime("%Y%m%d-%H%M%S")
        discarded = Transcripts(folder)
        for owner, session_id, turns in sessions:
            discarded.append(owner, session_id, turns)

    def close(self) -> None:
        self.engine.close()


def check_name(name: str) -> str:
    """The name, or an error if it is not a valid name of a workspace."""
    if not _NAME.fullmatch(name):
        raise Refused(
            f"'{name}' is not a valid workspace name. Use 1 to 40 of a-z, 0-9, '-' and '_', first a letter or digit."
        )
    return name


def open_engine(settings: Settings, name: str, kind: str = "workspace") -> Engine:
    """Open the database of a workspace, or the server's own (kind "server"), as the database URL says."""
    url = settings.database_url
    if url.startswith(("postgresql://", "postgres://")):
        from palaver.store.engines.postgres.engine import PostgresEngine

        return PostgresEngine(url, schema_of(name, kind), settings, kind)
    if url and not url.startswith("sqlite:///"):
        raise Refused("PALAVER_DATABASE_URL must begin with sqlite:/// or postgresql://.")
    from palaver.store.engines.sqlite.engine import SqliteEngine

    return SqliteEngine(file_of(settings, name, kind), settings, kind)


def engine_name(settings: Settings) -> str:
    return "postgres" if settings.database_url.startswith(("postgresql://", "postgres://")) else "sqlite"


def schema_of(name: str, kind: str) -> str:
    return f"{kind}_{name}" if kind == "workspace" else "palaver"


def file_of(settings: Settings, name: str, kind: str) -> Path:
    place = Path(settings.database_url.removeprefix("sqlite:///")) if settings.database_url else settings.data
    if place.suffix == ".db":  # the file of the default workspace; the others are beside it
        if kind == "server":
            return place.with_suffix(".house.db")  # this is not a valid name of a workspace
        return place if name == "default" else place.parent / f"{place.stem}-{name}.db"
    return place / "house.db" if kind == "server" else place / "workspaces" / f"{name}.db"


def sqlite_files(settings: Settings) -> dict[str, Path]:
    """The existing SQLite files of workspaces, by name."""
    usual = file_of(settings, DEFAULT, "workspace")
    found = {DEFAULT: usual} if usual.exists() else {}
    for path in sorted(usual.parent.glob("*.db")):
        name = path.stem.removeprefix(f"{usual.stem}-")
        if _NAME.fullmatch(name) and path == file_of(settings, name, "workspace"):
            found[name] = path
    return found


def workspaces_with_data(settings: Settings) -> list[str]:
    """The names of all workspaces with data, even if they are not in the list of workspaces."""
    if engine_name(settings) == "postgres":
        from palaver.store.engines.postgres.schemas import schemas

        prefix = schema_of("", "workspace")
        return sorted(name.removeprefix(prefix) for name in schemas(settings.database_url, prefix))
    return sorted(sqlite_files(settings))


def missing_tables(settings: Settings, name: str, kind: str = "workspace") -> list[str]:
    """The tables and indexes that are missing in a database. Nothing is changed."""
    if not has_data(settings, name, kind):
        return []
    if engine_name(settings) == "postgres":
        from palaver.store.engines.postgres import schemas as postgres

        return postgres.missing_tables_in(settings.database_url, schema_of(name, kind), kind)
    from palaver.store.engines.sqlite import engine as sqlite

    return sqlite.missing_tables_in(file_of(settings, name, kind), kind)


def has_lost_log(settings: Settings, name: str, kind: str = "workspace") -> bool:
    """Was the write-ahead log of an SQLite file removed? Call this before the file is opened."""
    if engine_name(settings) == "postgres":
        return False
    from palaver.store.engines.sqlite import engine as sqlite

    return sqlite.has_lost_log(file_of(settings, name, kind))


def has_data(settings: Settings, name: str, kind: str = "workspace") -> bool:
    """Does the database exist? That of the server has the list of workspaces, the tokens and the audit log."""
    if engine_name(settings) == "postgres":
        from palaver.store.engines.postgres.schemas import existing_schemas

        return bool(existing_schemas(settings.database_url, [schema_of(name, kind)]))
    path = file_of(settings, name, kind)
    return path.exists() and (kind == "workspace" or path.stat().st_size > 0)


def remove_data(settings: Settings, name: str) -> bool:
    """Delete all data of a workspace. Returns False, and deletes nothing, if another process has it open."""
    if engine_name(settings) == "postgres":
        from palaver.store.engines.postgres.schemas import drop

        drop(settings.database_url, schema_of(name, "workspace"))
    else:
        from palaver.store.engines.sqlite.recovery import is_in_use

        path = file_of(settings, name, "workspace")
        if path.exists() and is_in_use(path):
            return False
        for file in (path, *path.parent.glob(f"{path.name}-*"), *path.parent.glob(f"{path.name}.damaged-*")):
            file.unlink(missing_ok=True)
    checked = check_state.path_of(settings.data, name)
    for file in (checked, checked.with_suffix(".import")):
        file.unlink(missing_ok=True)
    for folder in ("sessions", "uploads", "discarded"):
        shutil.rmtree(settings.data / folder / name, ignore_errors=True)
    return True
