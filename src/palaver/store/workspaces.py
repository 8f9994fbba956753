"""A workspace: one owner's world. It offers `read`, `change` and `feed`, and no argument reaches another one."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from palaver.errors import PalaverError, Refused
from palaver.model.sessions import Owner, Turn
from palaver.model.times import now
from palaver.settings import Settings
from palaver.store.admin.keyring import Keyring
from palaver.store.bus import events
from palaver.store.bus.feed import Feed, Listener
from palaver.store.engines.database import Change, Engine, EngineStats, Reader
from palaver.store.search.search_sessions import SearchSessionCache
from palaver.store.sessions.transcripts import Transcripts

T = TypeVar("T")

DEFAULT = "default"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


class Workspace:
    def __init__(self, name: str, engine: Engine, settings: Settings, keyring: Keyring | None = None) -> None:
        self.name = name
        self.settings = settings
        self.keyring = keyring  # a workspace alone, without a house around it, has none
        self._engine = engine
        self._feed = Feed(engine)
        self.done: Counter[tuple[str, str, str]] = Counter()
        """What was asked here since the start: ('request', 'GET', '200'), ('operation', 'post_message', 'done')."""
        self.calls: dict[tuple[str, str], deque[float]] = {}
        """When each caller used each operation during the last minute, where that is limited."""
        self.recalls = SearchSessionCache(settings.session_ttl)
        self.missing_uploads: list[str] = []
        """Images that are shown and whose files were missing when somebody last looked."""
        self.transcripts = Transcripts(settings.data / "sessions" / name)

    @property
    def is_default(self) -> bool:
        return self.name == DEFAULT

    async def read(self, work: Callable[[Reader], T], *, timeout: float | None = None) -> T:
        """Run work on a consistent snapshot."""
        return await self._engine.read(work, timeout=timeout)

    async def change(self, work: Callable[[Change], T]) -> T:
        """Run work in one transaction; when this returns it is on disk and its events are on their way."""
        return await self._engine.change(work)

    @asynccontextmanager
    async def bulk_writes(self) -> AsyncIterator[None]:
        """While it lasts, the engine is set up for writing much at once."""
        await self.change(lambda change: change.run("begin_bulk_writes"))
        try:
            yield
        finally:
            with suppress(PalaverError):  # what went wrong before is to be told, not this
                await self.change(lambda change: change.run("end_bulk_writes"))

    def feed(self, after: int | None = None, thread_id: str | None = None) -> Listener:
        """Listen to events as they are committed, from `after` or from now: `async with here.feed() as listener`."""
        return self._feed.listener(after, thread_id)

    async def last_event_id(self) -> int:
        return await self.read(events.last_id)

    async def ping(self) -> None:
        """Raise an error unless the database answers readers and writers."""
        await self.read(events.last_id)
        await self.change(events.last_id)

    @property
    def listeners(self) -> int:
        return self._feed.listening

    def engine_stats(self) -> EngineStats:
        return self._engine.stats()

    def dismiss_listeners(self) -> None:
        """Everybody who listens is let go: the house is about to close."""
        self._feed.close()

    async def check(self) -> list[str]:
        """What is wrong with the data, as far as the engine can tell; an empty list is good news."""
        return await asyncio.to_thread(self._engine.check)

    def keep_discarded(self, sessions: list[tuple[Owner, str, list[Turn]]]) -> None:
        """Write turns that are about to leave the index to a folder of their own, in the form of transcripts."""
        folder = self.settings.data / "discarded" / self.name / now().strftime("%Y%m%d-%H%M%S")
        kept = Transcripts(folder)
        for owner, session_id, turns in sessions:
            kept.append(owner, session_id, turns)

    def lost_files(self) -> list[str]:
        """Database files that were existing_schemas away while they are open."""
        return self._engine.lost_files()

    async def create_missing_tables(self) -> list[str]:
        """Make the missing tables of the search index again, empty; returns their names."""
        return await asyncio.to_thread(self._engine.create_missing_tables)

    async def empty_index(self) -> None:
        """Empty the search index, to be filled again from the texts."""
        await asyncio.to_thread(self._engine.empty_index)

    def copy_into(self, folder: Path) -> int:
        """A consistent copy of the tables, while others go on writing; returns the number of its schema."""
        return self._engine.copy_into(folder)

    async def wipe(self) -> None:
        """Write the files anew, so that what was deleted is in none of them."""
        await asyncio.to_thread(self._engine.wipe)

    def close(self) -> None:
        self._engine.close()


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Refused(
            f"'{name}' cannot be a workspace's name: use up to 40 of a-z, 0-9, '-' and '_', first a letter or digit."
        )
    return name


def open_engine(settings: Settings, name: str, kind: str = "workspace") -> Engine:
    """The engine the database URL names, for one workspace (or for the house's own tables)."""
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
    if place.suffix == ".db":  # a file: it is the default workspace's, the others stand beside it
        if kind == "house":
            return place.with_suffix(".house.db")  # no workspace can have this name
        return place if name == "default" else place.parent / f"{place.stem}-{name}.db"
    return place / "house.db" if kind == "house" else place / "workspaces" / f"{name}.db"


def sqlite_files(settings: Settings) -> dict[str, Path]:
    """The files of SQLite databases that are there, by the name of their workspace. (The house's own is not one.)"""
    usual = file_of(settings, DEFAULT, "workspace")
    found = {DEFAULT: usual} if usual.exists() else {}
    for path in sorted(usual.parent.glob("*.db")):
        name = path.stem.removeprefix(f"{usual.stem}-")
        if _NAME.fullmatch(name) and path == file_of(settings, name, "workspace"):
            found[name] = path
    return found


def workspaces_with_data(settings: Settings) -> list[str]:
    """The names of all workspaces that have data in the database, whether anybody has listed them or not."""
    if engine_name(settings) == "postgres":
        from palaver.store.engines.postgres.engine import schemas

        prefix = schema_of("", "workspace")
        return sorted(name.removeprefix(prefix) for name in schemas(settings.database_url, prefix))
    return sorted(sqlite_files(settings))


def has_server_database(settings: Settings) -> bool:
    """Are the house's own tables there: the list of workspaces, tokens, the audit log?"""
    if engine_name(settings) == "postgres":
        from palaver.store.engines.postgres.engine import existing_schemas

        return bool(existing_schemas(settings.database_url, [schema_of("house", "house")]))
    path = file_of(settings, "house", "house")
    return path.exists() and path.stat().st_size > 0


def missing_tables(settings: Settings, name: str, kind: str = "workspace") -> list[str]:
    """Tables and indexes that should be in the data of a workspace and are not. Nothing is opened or changed."""
    if engine_name(settings) == "postgres":
        from palaver.store.engines.postgres import engine as postgres

        schema = schema_of(name, kind)
        there = postgres.existing_schemas(settings.database_url, [schema])
        return postgres.missing_tables_in(settings.database_url, schema, kind, settings) if there else []
    from palaver.store.engines.sqlite import engine as sqlite

    path = file_of(settings, name, kind)
    return sqlite.missing_tables_in(path, kind, settings) if path.exists() and path.stat().st_size else []


def has_lost_log(settings: Settings, name: str, kind: str = "workspace") -> bool:
    """Was the write-ahead log of an SQLite file existing_schemas away? To be asked before the file is opened."""
    if engine_name(settings) == "postgres":
        return False
    from palaver.store.engines.sqlite import engine as sqlite

    return sqlite.has_lost_log(file_of(settings, name, kind))


def has_data(settings: Settings, name: str) -> bool:
    if engine_name(settings) == "postgres":
        from palaver.store.engines.postgres.engine import existing_schemas

        return bool(existing_schemas(settings.database_url, [schema_of(name, "workspace")]))
    return file_of(settings, name, "workspace").exists()


def remove_data(settings: Settings, name: str) -> bool:
    """Everything a workspace has in the database and on disk. False: another process has it open, nothing was done."""
    if engine_name(settings) == "postgres":
        from palaver.store.engines.postgres.engine import drop

        drop(settings.database_url, schema_of(name, "workspace"))
    else:
        from palaver.store.engines.sqlite.recovery import is_in_use

        path = file_of(settings, name, "workspace")
        if path.exists() and is_in_use(path):
            return False
        for file in (path, *path.parent.glob(f"{path.name}-*"), *path.parent.glob(f"{path.name}.damaged-*")):
            file.unlink(missing_ok=True)
    for folder in ("sessions", "uploads", "discarded"):
        shutil.rmtree(settings.data / folder / name, ignore_errors=True)
    return True
