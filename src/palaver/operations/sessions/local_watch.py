"""Record watched turns in a workspace on this machine, and watch inside a server.

The marks are in the database of the workspace. A failure of the watch of a server is logged, and the watch starts
again after a pause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from palaver.errors import Forbidden
from palaver.model.people import Caller
from palaver.model.sessions import Mark
from palaver.model.times import now
from palaver.operations.sessions.carry_over import carry_over
from palaver.operations.sessions.private import privacy_rules
from palaver.operations.sessions.recording import MergedTurns, MergeTurns, merge_turns
from palaver.operations.sessions.session_index import catch_up_all
from palaver.operations.sessions.watch import Watch, WatchCounts
from palaver.store.sessions import sessions
from palaver.store.workspaces import Workspace

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a failed watch starts again. The pause doubles each time."""
STABLE_SECONDS = 300.0
"""A watch that ran this long begins with the first pause again when it fails."""

log = logging.getLogger("palaver")


class LocalTurns:
    """A `TurnStore` of a workspace."""

    def __init__(self, here: Workspace, caller: Caller) -> None:
        if "write" not in caller.scopes:
            raise Forbidden("This token has no 'write' scope. Ask for one that has: palaver token create.")
        self._here, self._caller = here, caller

    async def open(self, paths: list[str] | None) -> dict[str, Mark]:
        if paths is None:
            await catch_up_all(self._here)
            await carry_over(self._here)
        return await self._here.read(lambda read: sessions.file_marks(read, paths))

    async def keep_mark(self, mark: Mark, instead_of: str | None) -> None:
        await self._here.change(lambda change: sessions.keep_file_mark(change, mark, instead_of))

    async def merge(self, request: MergeTurns) -> MergedTurns:
        merged: MergedTurns = await merge_turns.work(self._here, self._caller, request)
        return merged


# The watch of a server


@dataclass(slots=True)
class WatchStatus:
    """What the watch of a server does, for /readyz."""

    state: str = "starting"
    """starting, reading, following or failed."""
    turns: int = 0
    """Turns that were recorded since the server started."""
    last_turn_at: datetime | None = None
    problem: str | None = None


async def watch_forever(open: Callable[[], Awaitable[Workspace]], places: Sequence[Path], status: WatchStatus) -> None:
    """Read the files in these places and follow them, until cancelled."""
    pause = FIRST_PAUSE
    loop = asyncio.get_running_loop()
    while True:
        began = loop.time()
        try:
            await _watch(await open(), places, status)
        except Exception as problem:
            status.state, status.problem = "failed", type(problem).__name__
            pause = FIRST_PAUSE if loop.time() - began > STABLE_SECONDS else pause
            log.warning("watching sessions failed, and starts again in %.0f s: %s", pause, problem, exc_info=problem)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def _watch(here: Workspace, places: Sequence[Path], status: WatchStatus) -> None:
    earlier = status.turns

    def note(counts: WatchCounts) -> None:
        if status.turns != earlier + counts.turns:
            status.turns, status.last_turn_at = earlier + counts.turns, now()

    store = LocalTurns(here, Caller(kind="human", name="human"))
    watch = Watch(store, places, progress=note, rules=privacy_rules(here.settings, is_here=True), is_gentle=True)
    status.state = "reading"
    note(await watch.read_all(retry=True))
    status.state, status.problem = "following", None
    await watch.follow(lambda new: note(watch.counts))
