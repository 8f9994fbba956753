"""Follow an external ChatGPT database (CONVERSATION_DB, or the newest db/*.db): import it whenever its file changes.

The file is checked before each search of the archive, so a change is found without a restart. Conversations that are no
longer in the file stay in the archive; only `conversation_search` leaves them out.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, nullcontext, suppress
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

import orjson

from palaver.errors import DatabaseNotFound, PalaverError
from palaver.importers import Unreadable
from palaver.importers.files.sqlite_file import Changed, Locked
from palaver.operations.archive import import_batches
from palaver.operations.archive.import_batches import ImportRequest
from palaver.operations.archive.import_files import GivingWay, messages_of
from palaver.settings import Settings
from palaver.store.library import archive
from palaver.store.workspaces import Workspace

log = logging.getLogger("palaver")

SMALL_BYTES = 4_000_000
"""A search waits for a database below this size. It answers from the part of a larger one that is read so far."""
WAIT_SECONDS = 20.0
"""A search waits at most this long for a small database."""
LARGE_WAIT_SECONDS = 0.5
"""The same, for a large one: one that has hardly changed is read by then."""
MOST_ATTEMPTS = 1_000
"""A file that changes while it is read is read again, at most this often."""


class _Follower:
    """The import that runs in one workspace, and the last failure."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.state = ""
        """The state of the file when the task began."""
        self.conversations = 0
        """The number of conversations that the task has read."""
        self.failed_state = ""
        """The state of a file that cannot be read. It is read again when it has changed."""
        self.failure: PalaverError | None = None


_followers: WeakKeyDictionary[Workspace, _Follower] = WeakKeyDictionary()


def find_database(settings: Settings) -> Path | None:
    """The external database: the configured one, or the newest in a `db` folder."""
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


async def import_if_changed(here: Workspace) -> None:
    """Import the external database if it has changed. An error is logged, and the search goes on without it."""
    if not here.is_default:
        return
    with suppress(PalaverError, OSError):
        path = find_database(here.settings)
        if path:
            await bring_up_to_date(here, path, 0.0)


async def bring_up_to_date(here: Workspace, path: Path, large_seconds: float = LARGE_WAIT_SECONDS) -> str | None:
    """Wait until the archive holds the database as it is now. Raises an error if it cannot be read.

    Returns a sentence if only a part of it has been read so far. Reading goes on then.
    """
    follower = _followers.setdefault(here, _Follower())
    state = await asyncio.to_thread(_state_of, path)
    is_small = path.stat().st_size < SMALL_BYTES
    until = asyncio.get_running_loop().time() + (WAIT_SECONDS if is_small else large_seconds)
    while await asyncio.to_thread(_imported_state, here.settings) != state or await here.read(archive.is_empty):
        if follower.failure and follower.failed_state == state:
            raise follower.failure
        is_new = follower.task is None or follower.task.done()
        if is_new:
            follower.task, follower.state = asyncio.create_task(_import(here, path, state, follower)), state
            follower.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        assert follower.task
        is_current = is_new or follower.state == state  # what is written after the search began may be missing
        done, _ = await asyncio.wait({follower.task}, timeout=max(0, until - asyncio.get_running_loop().time()))
        if not done:
            read = f"{follower.conversations:,} conversations so far"
            return f"{path.name} is still being read ({read}). Search again in a moment to find the rest."
        if is_current:
            follower.task.result()
            return None
    return None


async def _import(here: Workspace, path: Path, state: str, follower: _Follower) -> None:
    """Read the whole file. Only conversations that have changed are written."""
    try:
        for attempt in range(MOST_ATTEMPTS):
            try:
                await _read_once(here, path, follower)
                break
            except Changed:
                if attempt == MOST_ATTEMPTS - 1:
                    raise
    except Locked:
        log.warning("%s is locked by another program", path.name, exc_info=True)
        raise PalaverError(f"{path.name} is locked by another program. Try again in a moment.") from None
    except (Unreadable, OSError):
        log.exception("%s cannot be read as a canonical ChatGPT database", path.name)
        follower.failed_state = state
        follower.failure = PalaverError(f"{path.name} cannot be read as a canonical ChatGPT database.")
        raise follower.failure from None
    if await asyncio.to_thread(_state_of, path) == state:
        with suppress(OSError):  # without it the next search imports the file again
            await asyncio.to_thread(_keep_imported_state, here.settings, state)


async def _read_once(here: Workspace, path: Path, follower: _Follower) -> None:
    there: set[str] = set()
    is_large = path.stat().st_size >= SMALL_BYTES  # the server answers meanwhile, so a process of its own reads it
    known = await here.read(archive.fingerprints)
    request = ImportRequest(
        [path],
        are_uploads=True,
        messages_at_once=import_batches.MESSAGES_AT_ONCE_BESIDE_POSTS,
        prepare_text=here.engine.prepare_text,
        forgotten=here.forgotten,
        known=known,
    )
    batches = import_batches.read_batches(request, is_large=is_large)
    giving_way = GivingWay(here)
    async with here.bulk_writes() if is_large else nullcontext(), aclosing(batches):
        async for batch in batches:
            await giving_way.write(
                batch.conversations,
                messages_of,
                lambda some: here.change_beside(partial(archive.put_all, batch=some, is_followed=True)),
            )
            there.update(batch.unchanged, (one.conversation.id for one in batch.conversations))
            follower.conversations = len(there)
    await here.change(partial(archive.mark_gone, still_there=there))


# The state of the file


def _state_of(path: Path) -> str:
    """Changes whenever the file, or the log of changes beside it, does."""
    stats = []
    for name in (path.name, path.name + "-wal", path.name + "-journal"):
        with suppress(OSError):
            found = path.with_name(name).stat()
            stats.append((name, found.st_size, found.st_mtime_ns, found.st_ino))
    return repr((str(path.absolute()), stats))


def _file_of_state(settings: Settings) -> Path:
    return settings.data / "cache" / "followed-database.json"


def _imported_state(settings: Settings) -> str:
    """The state of the file that was imported last."""
    try:
        kept = orjson.loads(_file_of_state(settings).read_bytes())
        return str(kept["state"]) if kept["database"] == settings.database_url else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _keep_imported_state(settings: Settings, state: str) -> None:
    place = _file_of_state(settings)
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = place.with_suffix(".new")
    fresh.write_bytes(orjson.dumps({"database": settings.database_url, "state": state}))
    fresh.replace(place)
    place.with_name("served.db").unlink(missing_ok=True)  # version 0.1 kept a copy of the messages there
