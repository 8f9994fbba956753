"""Watch session files inside a server. A failure is logged, and the watch starts again after a pause."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from palaver.model.people import Caller
from palaver.model.times import now
from palaver.operations.sessions.local_turns import LocalTurns
from palaver.operations.sessions.private import privacy_rules
from palaver.operations.sessions.watch import Watch, WatchCounts
from palaver.store.workspaces import Workspace

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a failed watch starts again. The pause doubles each time."""
STABLE_SECONDS = 300.0
"""A watch that ran this long begins with the first pause again when it fails."""

log = logging.getLogger("palaver")


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
