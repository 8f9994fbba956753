"""The canonical database that is served as it is, kept in the archive too, so that every search finds it.

Before a search of the archive its file is looked at. If it has changed since it was last imported, it is imported
again: a small one before the search goes on, a large one beside it.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from weakref import WeakKeyDictionary

import orjson

from palaver.errors import DatabaseNotFound, PalaverError
from palaver.operations.archive.import_files import bring
from palaver.settings import Settings
from palaver.store.library import archive
from palaver.store.library.external_database import state_of
from palaver.store.workspaces import Workspace

log = logging.getLogger("palaver")

AT_ONCE = 4_000_000
"""Bytes. A smaller database is imported before the search goes on."""


class _Following:
    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.task: asyncio.Task[None] | None = None
        self.given_up = ""
        """The state of a file that could not be imported: it is tried again when it has changed."""


_following: WeakKeyDictionary[Workspace, _Following] = WeakKeyDictionary()


def canonical_database(settings: Settings) -> Path | None:
    """The database to serve as it is: the configured one, or the newest in a `db` folder."""
    if settings.conversation_db:
        path = settings.conversation_db.expanduser()
        if not path.is_file():
            raise DatabaseNotFound(path.name, "Check CONVERSATION_DB: it must name a file that exists.")
        return path
    for folder in (Path("db"), settings.data / "db"):
        found = [path for path in folder.glob("*.db") if path.is_file()]
        if found:
            return max(found, key=lambda path: path.stat().st_mtime)
    return None


async def keep_in_the_archive(here: Workspace) -> None:
    """Import the database if it has changed. Whatever goes wrong is written to the log; the search goes on."""
    if not here.is_default:
        return
    try:
        path = canonical_database(here.settings)
        if path is None:
            return
        state, size = state_of(path), path.stat().st_size
    except (DatabaseNotFound, OSError):
        return
    following = _following.setdefault(here, _Following())
    if following.given_up == state or (following.task and not following.task.done()):
        return
    async with following.lock:
        if _state_kept(here.settings) == state and not await here.read(archive.is_empty):
            return
        following.task = asyncio.create_task(_import(here, path, state, following))
    if size < AT_ONCE:
        await asyncio.shield(following.task)


async def _import(here: Workspace, path: Path, state: str, following: _Following) -> None:
    try:
        summary = await bring(here, [path])
        for skipped in summary.skipped if summary.failed else ():
            log.warning("%s: %s", skipped.name, skipped.why)
        if summary.failed:
            following.given_up = state
        elif state_of(path) == state:
            await asyncio.to_thread(_keep_state, here.settings, state)
    except (PalaverError, OSError):
        log.exception("%s could not be brought into the archive", path.name)
        following.given_up = state


# What was imported last


def _place(settings: Settings) -> Path:
    return settings.data / "cache" / "served-in-archive.json"


def _state_kept(settings: Settings) -> str:
    try:
        kept = orjson.loads(_place(settings).read_bytes())
    except (OSError, ValueError):
        return ""
    return str(kept["state"]) if isinstance(kept, dict) and kept.get("database") == settings.database_url else ""


def _keep_state(settings: Settings, state: str) -> None:
    place = _place(settings)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = place.with_suffix(".new")
    fresh.write_bytes(orjson.dumps({"database": settings.database_url, "state": state}))
    fresh.replace(place)
