"""The background check: the server looks for damage in its data once a day, and after it did not end properly.

SQLite checks its own file in a thread of the lowest priority. No data is changed and no writer waits.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from weakref import WeakKeyDictionary

from palaver.errors import Damaged, PalaverError
from palaver.model.times import now
from palaver.operations.admin.repair import (
    counted,
    known_missing_uploads,
    look_for_uploads,
    miscounted_threads,
    missing_transcripts,
    phrase_missing,
)
from palaver.settings import Settings
from palaver.store.admin import audit, data_losses
from palaver.store.engines.database import Engine
from palaver.store.library import documents
from palaver.store.workspaces import Workspace

Found = dict[str, str] | None
"""The damage that was found in a part, and what to do about each. None: the part cannot be checked yet."""

LOOK_SECONDS = 1.0
"""How often the server looks whether a check is due."""
AGAIN_SECONDS = 60.0
"""When a check that could not be completed is tried again."""
TEXTS_AT_ONCE = 200
REST_SECONDS = 0.02
"""The pause after comparing so many texts."""
LOWEST_PRIORITY = 19

RESTORE = "Restore a backup, or stop palaver and run 'palaver doctor --repair' to save what can be read"
REBUILD = "Run 'palaver doctor --repair': it rebuilds the search index from the texts, also while the server runs"
ASK_POSTGRES = "Look at the log and the disk of PostgreSQL, and restore a backup"
TAKE_COPIES = "'palaver doctor --repair' takes good copies from transcripts and events; a backup has the others"
RECOUNT = "A backup has the messages; 'palaver doctor --repair' counts the remaining ones"
BRING_BACK = "Copy the files back from a backup (is a disk not mounted?)"
AUDIT_ADVICE = "Find out who can write to the database. A backup has the earlier log"

log = logging.getLogger("palaver")


class BackgroundCheck:
    """The check of one server."""

    def __init__(self, server: Engine, seconds: float, opened: Callable[[], Iterable[Workspace]]) -> None:
        self._server, self._seconds, self._opened = server, seconds, opened
        self._due: WeakKeyDictionary[Workspace, float] = WeakKeyDictionary()
        self._thread = ThreadPoolExecutor(1, "check", initializer=_lower_priority)

    async def run_forever(self) -> None:
        try:
            while True:
                for here in self._opened():
                    if here not in self._due:
                        self._due[here] = time.monotonic() + self._first_wait(here)
                        here.check_state.update(state="waiting")
                    is_due = time.monotonic() >= self._due[here] or here.check_state.is_wanted_again()
                    if is_due and not here.is_importing():
                        is_complete = await self.check(here)
                        wait = self._seconds if is_complete else min(self._seconds, AGAIN_SECONDS)
                        self._due[here] = time.monotonic() + wait
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._thread.shutdown(wait=False)
            for here in self._due:
                here.check_state.update(state="off")

    def _first_wait(self, here: Workspace) -> float:
        """The rest of the time since the last check, or none if the server did not end properly since then."""
        status = here.check_state.status
        if status.state != "off" or status.last_round_at is None:
            return 0.0
        return self._seconds - (now() - status.last_round_at).total_seconds()

    async def check(self, here: Workspace) -> bool:
        """Check every part of a workspace once. Returns whether every part could be checked."""
        state, is_complete = here.check_state, True
        state.update(state="checking")
        for part, look in PARTS.items():
            if part in SERVER_PARTS and not here.is_default:
                continue
            try:
                found = await look(self, here)
            except Damaged as problem:
                found = {problem.message.partition(". ")[0]: _advice_for_tables(here)}
            except Exception as problem:
                if here not in self._opened():  # it was closed meanwhile
                    return False
                said = problem.message if isinstance(problem, PalaverError) else repr(problem)
                log.warning("checking the %s of workspace %s failed: %s", part, here.name, said)
                found = None
            if found is None:
                is_complete = False  # its findings stay until it could be checked
            else:
                state.report(part, found)
        state.update(state="waiting", **({"last_round_at": now()} if is_complete else {}))
        return is_complete

    async def _threads(self, here: Workspace) -> Found:
        return dict.fromkeys(await miscounted_threads(here), RECOUNT)

    async def _uploads(self, here: Workspace) -> Found:
        await look_for_uploads(here)
        return dict.fromkeys(known_missing_uploads(here), BRING_BACK)

    async def _transcripts(self, here: Workspace) -> Found:
        return dict.fromkeys(phrase_missing(*await missing_transcripts(here)), BRING_BACK)

    async def _tables(self, here: Workspace) -> Found:
        return await self._check_engine(here, here.engine)

    async def _server_tables(self, here: Workspace) -> Found:
        return await self._check_engine(here, self._server)

    async def _check_engine(self, here: Workspace, engine: Engine) -> Found:
        check = partial(engine.check, is_quick=True)
        problems = await asyncio.get_running_loop().run_in_executor(self._thread, check)
        return {says: REBUILD if " passage_" in says else _advice_for_tables(here) for says in problems}

    async def _texts(self, here: Workspace) -> Found:
        """Compare texts with their checksums. Texts of earlier versions get theirs: the only thing that is written."""
        after: int | None = -1
        damaged = 0
        while after is not None:
            checked = await here.read(partial(documents.check_texts, after=after, limit=TEXTS_AT_ONCE))
            damaged += len(checked.damaged)
            after = checked.last
            if checked.without_checksum:
                await here.change(partial(documents.add_checksums, checksums=checked.without_checksum))
            await asyncio.sleep(REST_SECONDS)
        return {f"{counted(damaged, 'text', 'is')} not as written": TAKE_COPIES} if damaged else {}

    async def _index(self, here: Workspace) -> Found:
        if await here.read(documents.is_complete):
            return {}
        if not here.is_index_filled or here.is_importing():  # long texts are indexed after their change
            return None
        return {} if await here.read(documents.is_complete) else {"passages are missing in it": REBUILD}

    async def _audit_log(self, here: Workspace) -> Found:
        if not await self._server.read(audit.is_protected):
            log.warning("the protection of the audit log against changes was missing; it was created again")
            await self._server.change(data_losses.restore_audit_protection)
        return dict.fromkeys(await self._server.read(audit.problems), AUDIT_ADVICE)


PARTS: dict[str, Callable[[BackgroundCheck, Workspace], Awaitable[Found]]] = {
    "threads": BackgroundCheck._threads,
    "uploads": BackgroundCheck._uploads,
    "transcripts": BackgroundCheck._transcripts,
    "tables": BackgroundCheck._tables,
    "texts": BackgroundCheck._texts,
    "search index": BackgroundCheck._index,
    "server tables": BackgroundCheck._server_tables,
    "audit log": BackgroundCheck._audit_log,
}
SERVER_PARTS = ("server tables", "audit log")
"""Parts of the server. They are checked with the default workspace."""
LIVE_PARTS = ("uploads", "transcripts")
"""Parts that `/readyz` looks at itself whenever it is asked."""


def _lower_priority() -> None:
    """Let everything else go before this thread. Elsewhere than on Linux the priority is that of the process."""
    with suppress(OSError):
        if sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)


def _advice_for_tables(here: Workspace) -> str:
    return ASK_POSTGRES if here.settings.database_url.startswith("postgres") else RESTORE


def check_again(settings: Settings) -> None:
    """Forget the findings, because the data was repaired. A running server checks it again at once."""
    for path in (settings.data / "checks").glob("*.json"):
        path.unlink(missing_ok=True)
