"""Background maintenance of workspaces: offline agents, old events, and completing the search index."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from palaver.model.events import agent_offline
from palaver.model.times import now
from palaver.operations.admin.repair import counted, fill_index, look_for_uploads
from palaver.operations.sessions.carry_over import carry_over
from palaver.operations.sessions.session_index import catch_up_all
from palaver.settings import Settings
from palaver.store.bus import agents, events, mcp_sessions, webhooks
from palaver.store.engines.database import Change, Reader
from palaver.store.library import documents
from palaver.store.search import search_sessions
from palaver.store.workspaces import Workspace

SWEEP_SECONDS = 5.0
SWEEPS_PER_INDEX_CHECK = 6
EMBED_SECONDS = 2.0
EMBED_PAUSE_SECONDS = 0.05
"""The pause between batches of vectors. It keeps the server quick while it looks for passages without vectors."""
INDEX_CHECK_PAUSE = 100
"""The search index is checked again after this many times the time that the last check took, at least 30 s."""

MENDED = "They were added again. Look at what else writes to the database, and at the disk"

log = logging.getLogger("palaver")

Workspaces = Callable[[], list[Workspace]]
"""Returns the workspaces that are open now."""


async def repeat(seconds: float, what: str, work: Callable[[], Awaitable[None]]) -> None:
    """Do `work` forever. A failure is logged, and the next round tries again."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await work()
        except Exception as problem:
            log.warning("%s failed: %s", what, problem)


async def _try(here: Workspace, what: str, work: Callable[[Workspace], Awaitable[object]]) -> bool:
    """Do `work` in a workspace. A failure is logged, and the server goes on. Returns whether it was done."""
    try:
        await work(here)
    except Exception as problem:
        log.warning("%s of workspace %s failed: %s", what, here.name, problem)
        return False
    return True


async def sweep_forever(workspaces: Workspaces) -> None:
    # A command without a server does not need them.
    from palaver.operations.bus.questions import expire_questions
    from palaver.operations.bus.receipts import return_unread

    for number in itertools.count(1):
        for here in workspaces():
            await _try(here, "maintenance", sweep)
            await _try(here, "expiring questions", expire_questions)
            await _try(here, "returning messages", return_unread)
            if number % SWEEPS_PER_INDEX_CHECK == 0:
                await check_index_if_due(here)
                await _try(here, "deleting old sessions", forget_old_state)
        await asyncio.sleep(SWEEP_SECONDS)


async def check_index_if_due(here: Workspace) -> None:
    """Complete the search index. Looking for missing rows reads all passages, so a large workspace is checked less
    often. Transcripts are compared each time."""
    began = time.monotonic()
    if began < here.index_check_due:
        await _try(here, "indexing the transcripts", catch_up_all)
    elif await complete_index(here):
        ended = time.monotonic()
        here.index_check_due = ended + (ended - began) * INDEX_CHECK_PAUSE


async def embed_forever(settings: Settings, workspaces: Workspaces) -> None:
    """Make the vectors of new passages, a few in each workspace by turns."""
    from palaver.search.vectors import nearest  # a slow import
    from palaver.search.vectors.background import Embedding

    embedding = Embedding(settings)
    try:
        while True:
            has_more = False
            for here in workspaces():
                try:
                    here.has_vectors_to_make = await embedding.go_over(here)
                    has_more |= here.has_vectors_to_make
                    await nearest.load_wanted(here)
                except Exception as problem:
                    log.warning("making vectors in workspace %s failed: %s", here.name, problem)
            await embedding.stop_idle_worker()
            await asyncio.sleep(EMBED_PAUSE_SECONDS if has_more else EMBED_SECONDS)
    finally:
        await embedding.close()


async def sweep(here: Workspace) -> None:
    """Mark silent agents as offline, and delete the oldest events."""
    before = now() - timedelta(seconds=here.settings.heartbeat_timeout)
    silent = await here.read(lambda read: agents.silent_since(read, before))
    first, last = await here.read(events.bounds)
    too_many = last - first + 1 > here.settings.keep_events * 1.1
    if not silent and not too_many:
        return

    def work(change: Change) -> None:
        for agent in agents.silent_since(change, before):
            agents.leave(change, agent, "timed out")
            change.tell(agent_offline(agents.must_exist(change, agent.id)))
        if too_many:
            events.forget_old(change, here.settings.keep_events)

    await here.change(work)


async def forget_old_state(here: Workspace) -> None:
    """Delete what clients left in the database and will not use again."""

    def work(change: Change) -> None:
        search_sessions.forget_old(change)
        mcp_sessions.forget_old(change)
        webhooks.forget_old_calls(change)

    await here.change(work)


async def complete_index(here: Workspace, *, is_opening: bool = False) -> bool:
    """Index everything that was stored while no server indexed it, and look for missing images. After a failure, which
    it logs, the server keeps running with an incomplete index.

    Reading every passage takes seconds for a million. Opening a workspace therefore only looks at a few.
    """
    return await _try(here, "completing the search index", partial(_complete_index, is_opening=is_opening))


async def _complete_index(here: Workspace, is_opening: bool) -> None:
    if not is_opening and (made := await asyncio.to_thread(here.engine.create_missing_tables)):
        log.warning("rebuilding missing search tables of workspace %s: %s", here.name, ", ".join(made))

    def look(read: Reader) -> tuple[bool, bool]:
        is_complete = (is_opening and documents.seems_complete(read)) or documents.is_complete(read)
        return is_complete, documents.has_marked_human_only(read)

    is_complete, has_marks = await here.read(look)
    if not is_complete:
        is_being_filled = here.is_importing()  # also by a change whose long texts are indexed after it
        added = await fill_index(here)
        if added and here.is_index_filled and not is_being_filled:  # it was complete: somebody else removed rows
            here.check_state.report("search index", {f"{counted(added, 'passage', 'is')} not in it": MENDED})
    if not is_opening and not here.is_importing():
        await here.change(lambda change: change.connection.dialect.tidy(change.connection))
    if not has_marks:
        await here.change(documents.mark_human_only)
    here.is_index_filled = True
    await catch_up_all(here)
    if is_opening:
        await carry_over(here)
    await look_for_uploads(here)
