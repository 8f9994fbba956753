"""The background check: the server looks for damage in its data while it runs.

A round checks every open workspace once, one part after the other and long parts a little at a time, with a pause
after each step that is many times as long as the step. No data is changed and no writer waits. During a large import
the check pauses.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar
from weakref import WeakKeyDictionary

from palaver.errors import Damaged, PalaverError
from palaver.operations.admin.repair import missing_transcripts, missing_uploads, phrase_images, phrase_texts
from palaver.settings import Settings
from palaver.store.admin import audit, check_state, data_losses
from palaver.store.admin.check_state import CheckStatus
from palaver.store.bus import threads
from palaver.store.engines.database import Engine, Reader
from palaver.store.library import documents
from palaver.store.workspaces import Workspace

T = TypeVar("T")
Found = dict[str, str] | None
"""The damage that was found in a part, and what to do about each. None: the part cannot be checked yet."""

REST = 30.0
"""The pause after a step, as a multiple of the time that the step took: the check uses about 3 % of a core."""
SHORTEST_PAUSE = 0.01
STEPS_A_ROUND = 100
"""A pause is at most this part of the time between two rounds, so that short times are kept."""
LOOK_SECONDS = 1.0
"""How often the server looks whether a round is due, and whether an import has ended."""
AGAIN_SECONDS = 60.0
"""When a round that could not be completed is tried again."""
PASSAGES_AT_ONCE = 200

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

    def __init__(self, server: Engine, seconds: float, opened: Callable[[], list[Workspace]]) -> None:
        self._server, self._seconds, self._opened = server, seconds, opened
        self._due: WeakKeyDictionary[Workspace, float] = WeakKeyDictionary()

    async def run_forever(self) -> None:
        while True:
            for here in self._opened():
                if time.monotonic() >= self._due.get(here, 0.0) or here.check_state.is_wanted_again():
                    is_complete = await self.check(here)
                    wait = self._seconds if is_complete else min(self._seconds, AGAIN_SECONDS)
                    self._due[here] = time.monotonic() + wait
            await asyncio.sleep(LOOK_SECONDS)

    async def check(self, here: Workspace) -> bool:
        """One round over a workspace. Returns whether every part could be checked."""
        state, is_complete = here.check_state, True
        parts = {part: look for part, look in PARTS.items() if here.is_default or part not in SERVER_PARTS}
        for number, (part, look) in enumerate(parts.items()):
            state.update(state="checking", part=part, parts_done=number, parts=len(parts))
            try:
                found = await look(self, here)
            except Damaged as problem:
                found = {problem.message.partition(". ")[0]: _advice_for_tables(here)}
            except Exception as problem:
                if here not in self._opened():  # it was closed during its round
                    return False
                said = problem.message if isinstance(problem, PalaverError) else repr(problem)
                log.warning("checking the %s of workspace %s failed: %s", part, here.name, said)
                found = None
            if found is None:
                is_complete = False  # its findings stay until it could be checked
            else:
                state.report(part, found)
        state.end_round(is_complete=is_complete)
        return is_complete

    async def _step(self, here: Workspace, work: Callable[[], Awaitable[T]]) -> T:
        """Do a part of the work, then rest."""
        while here.is_importing():
            here.check_state.update(state="paused")
            await asyncio.sleep(LOOK_SECONDS)
        here.check_state.update(state="checking")
        began = time.perf_counter()
        try:
            return await work()
        finally:
            took = time.perf_counter() - began
            await asyncio.sleep(max(SHORTEST_PAUSE, min(took * REST, self._seconds / STEPS_A_ROUND)))

    async def _read(self, here: Workspace, work: Callable[[Reader], T]) -> T:
        return await self._step(here, lambda: here.read(work))

    async def _read_server(self, here: Workspace, work: Callable[[Reader], T]) -> T:
        return await self._step(here, lambda: self._server.read(work))

    async def _threads(self, here: Workspace) -> Found:
        wrong = await self._read(here, threads.count_miscounted)
        have = "1 thread has" if wrong == 1 else f"{wrong:,} threads have"
        return {f"{have} fewer or more messages than were posted": RECOUNT} if wrong else {}

    async def _uploads(self, here: Workspace) -> Found:
        here.missing_uploads = gone = await self._step(here, lambda: missing_uploads(here))
        return {f"{phrase_images(len(gone))} missing in the folder 'uploads'": BRING_BACK} if gone else {}

    async def _transcripts(self, here: Workspace) -> Found:
        if not here.settings.sessions_index:
            return {}
        recorded, gone = await self._step(here, lambda: missing_transcripts(here))
        return {f"{gone:,} of {recorded:,} transcripts are missing": BRING_BACK} if gone else {}

    async def _tables(self, here: Workspace) -> Found:
        return await self._check_engine(here, here.engine)

    async def _server_tables(self, here: Workspace) -> Found:
        return await self._check_engine(here, self._server)

    async def _check_engine(self, here: Workspace, engine: Engine) -> Found:
        problems = await self._step(here, lambda: asyncio.to_thread(engine.check, is_quick=True))
        return {says: REBUILD if " passage_" in says else _advice_for_tables(here) for says in problems}

    async def _texts(self, here: Workspace) -> Found:
        """Compare texts with their checksums. Texts of earlier versions get theirs: the only thing that is written."""
        after: int | None = -1
        damaged = 0
        while after is not None:
            checked = await self._read(here, partial(documents.check_texts, after=after, limit=PASSAGES_AT_ONCE))
            damaged += len(checked.damaged)
            after = checked.last
            if checked.without_checksum:
                await here.change(partial(documents.add_checksums, checksums=checked.without_checksum))
        return {f"{phrase_texts(damaged)} not as written": TAKE_COPIES} if damaged else {}

    async def _index(self, here: Workspace) -> Found:
        if not here.is_index_filled:
            return None
        after: int | None = -1
        is_found = True
        while after is not None:
            checked = await self._read(here, partial(documents.look_up_words, after=after, limit=PASSAGES_AT_ONCE))
            is_found &= not checked.missing
            after = checked.last
        # Without a number: other words are looked up each time.
        return {} if is_found else {"passages cannot be found by their own words": REBUILD}

    async def _audit_log(self, here: Workspace) -> Found:
        if not await self._read_server(here, audit.is_protected):
            log.warning("the protection of the audit log against changes was missing; it was created again")
            await self._server.change(data_losses.restore_audit_protection)
        checked = audit.CheckedUpTo()
        while not checked.is_done:
            checked = await self._read_server(here, partial(audit.check_further, checked=checked))
        return {checked.problem: AUDIT_ADVICE} if checked.problem else {}


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


def _advice_for_tables(here: Workspace) -> str:
    return ASK_POSTGRES if here.settings.database_url.startswith("postgres") else RESTORE


# For other processes


def status_of_last_check(settings: Settings, workspace: str) -> CheckStatus | None:
    """What the server that checks this workspace wrote last."""
    return check_state.read_status(check_state.path_of(settings.data, workspace))


def check_again(settings: Settings) -> None:
    """Forget the findings, because the data was repaired. A running server begins a new round."""
    for path in (settings.data / "checks").glob("*.json"):
        path.unlink(missing_ok=True)
