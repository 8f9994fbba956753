"""The background check: the server looks for damage in its data while it runs, a little at a time.

A round checks every open workspace once. It is done in slices, with a pause after each that is many times as long as
the slice. No data is changed and no writer waits. During a large import the check pauses.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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

REST = 30.0
"""The pause after a slice, as a multiple of the time that the slice took: the check uses about 3 % of a core."""
SHORTEST_PAUSE = 0.01
SLICES_A_ROUND = 100
"""A pause is at most this part of the time between two rounds, so that short times are kept."""
LOOK_SECONDS = 1.0
"""How often the server looks whether a round is due, and whether an import has ended."""
AGAIN_SECONDS = 60.0
"""When a round that could not be completed is tried again."""
THREADS_AT_ONCE = 50
PASSAGES_AT_ONCE = 200

WORKSPACE_PARTS = ("threads", "uploads", "transcripts", "tables", "texts", "search index")
ALL_PARTS = (*WORKSPACE_PARTS, "server tables", "audit log")
"""The parts of the default workspace. Those of the server are checked with it."""
LIVE_PARTS = ("uploads", "transcripts")
"""Parts that `/readyz` looks at itself whenever it is asked."""

RESTORE = "Restore a backup, or stop palaver and run 'palaver doctor --repair' to save what can be read"
REBUILD = "Run 'palaver doctor --repair': it rebuilds the search index from the texts, also while the server runs"
ASK_POSTGRES = "Look at the log and the disk of PostgreSQL, and restore a backup"
TAKE_COPIES = "'palaver doctor --repair' takes good copies from transcripts and events; a backup has the others"
RECOUNT = "A backup has the messages; 'palaver doctor --repair' counts the remaining ones"
BRING_BACK = "Copy the files back from a backup (is a disk not mounted?)"
AUDIT_ADVICE = "Find out who can write to the database. A backup has the earlier log"

log = logging.getLogger("palaver")


class _Closed(Exception):
    """The workspace was closed during its round."""


class BackgroundCheck:
    """The check of one server."""

    def __init__(self, server: Engine, seconds: float, opened: Callable[[], list[Workspace]]) -> None:
        self._server, self._seconds, self._opened = server, seconds, opened
        self._due: WeakKeyDictionary[Workspace, float] = WeakKeyDictionary()
        # Its priority stays as it is: a thread of low priority that holds Python's lock would keep the others waiting.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="check")

    async def run_forever(self) -> None:
        try:
            while True:
                for here in self._opened():
                    if time.monotonic() >= self._due.get(here, 0.0) or here.check_state.is_wanted_again():
                        is_complete = await self.check(here)
                        wait = self._seconds if is_complete else min(self._seconds, AGAIN_SECONDS)
                        self._due[here] = time.monotonic() + wait
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            await asyncio.to_thread(self._thread.shutdown)

    async def check(self, here: Workspace) -> bool:
        """One round over a workspace. Returns whether every part could be checked."""
        checks: dict[str, Callable[[Workspace], Awaitable[bool]]] = {
            "threads": self._check_threads,
            "uploads": self._check_uploads,
            "transcripts": self._check_transcripts,
            "tables": self._check_tables,
            "texts": self._check_texts,
            "search index": self._check_index,
            "server tables": self._check_server_tables,
            "audit log": self._check_audit_log,
        }
        parts = ALL_PARTS if here.is_default else WORKSPACE_PARTS
        state, is_complete = here.check_state, True
        state.begin_round(len(parts))
        for part in parts:
            state.begin_part(part)
            try:
                is_complete &= await checks[part](here)
            except Damaged as problem:
                state.report(part, problem.message.partition(". ")[0], _advice_for_tables(here))
            except _Closed:
                return False
            except Exception as problem:
                said = problem.message if isinstance(problem, PalaverError) else repr(problem)
                log.warning("checking the %s of workspace %s failed: %s", part, here.name, said)
                is_complete = False
                continue  # its findings stay until it could be checked
            state.end_part()
        state.end_round(is_complete=is_complete)
        return is_complete

    async def _slice(self, here: Workspace, work: Callable[[], Awaitable[T]]) -> T:
        """Run one slice, then rest."""
        while here.is_importing():
            here.check_state.set_paused(True)
            await asyncio.sleep(LOOK_SECONDS)
        here.check_state.set_paused(False)
        if here not in self._opened():
            raise _Closed
        began = time.perf_counter()
        try:
            return await work()
        finally:
            took = time.perf_counter() - began
            here.check_state.slices += 1
            here.check_state.seconds += took
            await asyncio.sleep(max(SHORTEST_PAUSE, min(took * REST, self._seconds / SLICES_A_ROUND)))

    async def _read_slice(self, here: Workspace, engine: Workspace | Engine, work: Callable[[Reader], T]) -> T:
        return await self._slice(here, lambda: engine.read(work))

    async def _check_threads(self, here: Workspace) -> bool:
        after: int | None = 0
        wrong = 0
        while after is not None:
            work = partial(threads.miscounted_after, after=after, limit=THREADS_AT_ONCE)
            after, more = await self._read_slice(here, here, work)
            wrong += more
        if wrong:
            have = "1 thread has" if wrong == 1 else f"{wrong:,} threads have"
            here.check_state.report("threads", f"{have} fewer or more messages than were posted", RECOUNT)
        return True

    async def _check_uploads(self, here: Workspace) -> bool:
        here.missing_uploads = gone = await self._slice(here, lambda: missing_uploads(here))
        if gone:
            here.check_state.report(
                "uploads", f"{phrase_images(len(gone))} missing in the folder 'uploads'", BRING_BACK
            )
        return True

    async def _check_transcripts(self, here: Workspace) -> bool:
        if here.settings.sessions_index:
            recorded, gone = await self._slice(here, lambda: missing_transcripts(here))
            if gone:
                here.check_state.report("transcripts", f"{gone:,} of {recorded:,} transcripts are missing", BRING_BACK)
        return True

    async def _check_tables(self, here: Workspace) -> bool:
        return await self._check_engine(here, here, "tables")

    async def _check_server_tables(self, here: Workspace) -> bool:
        return await self._check_engine(here, self._server, "server tables")

    async def _check_engine(self, here: Workspace, engine: Workspace | Engine, part: str) -> bool:
        loop, slices = asyncio.get_running_loop(), engine.table_slices()
        try:
            while True:
                found = await self._slice(here, lambda: loop.run_in_executor(self._thread, slices.next))
                if found is None:
                    return True
                for says in found:
                    is_index = " passage_" in says
                    here.check_state.report(part, says, REBUILD if is_index else _advice_for_tables(here))
        finally:
            slices.stop()
            with suppress(RuntimeError):
                self._thread.submit(slices.close)

    async def _check_texts(self, here: Workspace) -> bool:
        """Compare texts with their checksums. Texts of earlier versions get theirs: the only thing that is written."""
        after: int | None = -1
        damaged = 0
        while after is not None:
            checked = await self._read_slice(
                here, here, partial(documents.check_texts, after=after, limit=PASSAGES_AT_ONCE)
            )
            damaged += len(checked.damaged)
            after = checked.last
            if checked.without_checksum:
                await here.change(partial(documents.add_checksums, checksums=checked.without_checksum))
        if damaged:
            here.check_state.report("texts", f"{phrase_texts(damaged)} not as written", TAKE_COPIES)
        return True

    async def _check_index(self, here: Workspace) -> bool:
        if not here.is_index_filled:
            return False
        after: int | None = -1
        is_found = True
        while after is not None:
            work = partial(documents.look_up_words, after=after, limit=PASSAGES_AT_ONCE)
            found = await self._read_slice(here, here, work)
            is_found &= not found.missing
            after = found.last
        if not is_found:  # without a number: other words are looked up each time
            here.check_state.report("search index", "passages cannot be found by their own words", REBUILD)
        return True

    async def _check_audit_log(self, here: Workspace) -> bool:
        if not await self._read_slice(here, self._server, audit.is_protected):
            log.warning("the protection of the audit log against changes was missing; it was created again")
            await self._server.change(data_losses.restore_audit_protection)
        checked = audit.CheckedUpTo()
        while not checked.is_done:
            work = partial(audit.check_further, checked=checked)
            checked = await self._read_slice(here, self._server, work)
        if checked.problem:
            here.check_state.report("audit log", checked.problem, AUDIT_ADVICE)
        return True


def _advice_for_tables(here: Workspace) -> str:
    return ASK_POSTGRES if here.settings.database_url.startswith("postgres") else RESTORE


# For other processes


def status_of_last_check(settings: Settings, workspace: str) -> CheckStatus | None:
    """What the server that checks this workspace wrote last."""
    return check_state.read_status(check_state.path_of(settings.data, workspace))


def check_again(settings: Settings) -> None:
    """Forget the findings, because the data was repaired. A running server begins a new round."""
    for path in (settings.data / "checks").glob("*.json"):
        check_state.forget(settings.data, path.stem)
