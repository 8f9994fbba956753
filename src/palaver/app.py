"""The application: opens the server database and the workspaces that the settings name, and wires their parts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from palaver.errors import Conflict, NotFound, PalaverError, Refused
from palaver.model.admin.audit import TERMINAL, Entry
from palaver.operations.admin import maintenance
from palaver.operations.admin.access import Access
from palaver.operations.admin.background_check import LIVE_PARTS, BackgroundCheck
from palaver.operations.admin.oauth import OAuth
from palaver.operations.admin.repair import HealthProblem, health_problems
from palaver.settings import Settings
from palaver.store.admin import audit, data_losses, tokens
from palaver.store.admin.active_logins import ActiveLogins
from palaver.store.admin.active_logins import LoginEnded as LoginEnded
from palaver.store.admin.audit import AuditLog
from palaver.store.bus import names
from palaver.store.engines import missing_tables
from palaver.store.engines.database import Change, Engine
from palaver.store.engines.reopening import ReopeningEngine
from palaver.store.sessions.outlines import RecentOutlines
from palaver.store.workspaces import DEFAULT as DEFAULT
from palaver.store.workspaces import (
    Workspace,
    check_name,
    has_data,
    open_engine,
    remove_data,
    workspaces_with_data,
)
from palaver.text import notable

if TYPE_CHECKING:
    from palaver.operations.sessions.local_watch import WatchStatus

CHECK_ACCESS_SECONDS = 0.5
"""How often the server looks for tokens, logins and workspaces that another process ended."""
READ_MARKS_SECONDS = 1.0
"""How often the server stores the read marks of agents."""
RELEASE_SECONDS = 10.0
"""How long deleting a workspace waits for other servers to close its files."""
INDEX_WAIT_SECONDS = 2.0
"""How long opening a workspace waits for its search index to be completed."""
MOST_OPEN = 100
"""How many databases of workspaces are open at once. The ones that were not used for the longest time are closed."""
IDLE_SECONDS = 900.0
"""The database of a workspace that nobody used for this long is closed. The next use opens it again."""
CLOSE_IDLE_SECONDS = 30.0
"""How often the server looks for idle workspaces."""

log = logging.getLogger("palaver")


@dataclass
class OpenedWorkspace:
    """A workspace that was opened since the start. Its database can be closed while nobody uses it."""

    here: Workspace
    engine: ReopeningEngine
    used_at: float
    indexing: asyncio.Task[bool]
    """Completes the search index after the workspace was opened."""

    @property
    def is_idle(self) -> bool:
        """Is the database open, although nobody listens to it and nothing is done in the background?"""
        is_in_use = self.here.listeners or self.here.has_vectors_to_make or not self.indexing.done()
        return self.engine.is_open and not (self.here.is_default or is_in_use)

    async def close_database(self) -> None:
        await self.here.store_read_marks()
        self.here.outlines = RecentOutlines()
        await asyncio.to_thread(self.engine.close_idle)


class App:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # The server database is always created before the first workspace. Without it, existing ones were lost.
        there = workspaces_with_data(settings)
        self._unlisted = there if there and not has_data(settings, "server", "server") else []
        self._database: Engine = open_engine(settings, "server", "server")
        self._has_noted_losses = False
        self._workspaces: dict[str, OpenedWorkspace] = {}
        self._background: list[asyncio.Task[None]] = []
        self.watch: WatchStatus | None = None
        """The state of the watch of session files, if this process has one."""
        self.trail = AuditLog(self._database)
        self.access = Access(self.trail, ActiveLogins(), self.open)
        self.oauth = OAuth(self.trail, self.access.present)

    # Workspaces

    async def open(self, name: str = DEFAULT) -> Workspace:
        """Open an existing workspace. The default workspace is created when it is first opened."""
        if known := self._workspaces.get(name):
            known.used_at = time.monotonic()
            return known.here
        await self._note_losses()
        is_listed = await self._database.read(lambda read: tokens.has_workspace(read, name))
        if not is_listed and name != DEFAULT:
            raise NotFound("workspace", name, "Create it with 'palaver workspace create NAME'.")
        # Data is created before the workspace is listed, so a listed workspace without data has lost it.
        is_lost = is_listed and not await asyncio.to_thread(has_data, self.settings, name)
        engine = await asyncio.to_thread(open_engine, self.settings, name)
        if is_lost:
            log.warning("the database of workspace %s was missing; an empty one was created", name)
            await self._database.change(lambda change: data_losses.note(change, data_losses.WORKSPACE, name))
        if engine.has_lost_log:
            log.warning("the write-ahead log of workspace %s was missing; its latest changes may be lost", name)
            await self._database.change(lambda change: data_losses.note(change, data_losses.LOG, name))
        if not is_listed:
            await self._database.change(lambda change: tokens.add_workspace(change, name))
        if known := self._workspaces.get(name):  # another task opened it meanwhile
            engine.close()
            return known.here
        reopening = ReopeningEngine(engine, lambda: self._open_again(name))
        here = Workspace(name, reopening, self.settings, self.access.keyring(name))
        indexing = asyncio.create_task(self._prepare(here))
        self._workspaces[name] = OpenedWorkspace(here, reopening, time.monotonic(), indexing)
        await asyncio.wait((indexing,), timeout=INDEX_WAIT_SECONDS)
        await self.close_idle_workspaces()
        return here

    async def _prepare(self, here: Workspace) -> bool:
        """Complete the search index, and keep the names of people whose tokens are older than this rule."""
        with contextlib.suppress(PalaverError):  # a database that is away can do without
            tokens_here = await self._database.read(lambda read: tokens.of(read, here.name))
            people = {token.name for token in tokens_here if token.kind == "human"}
            if await here.read(lambda read: any(not names.holder_of(read, person) for person in people)):
                await here.change(lambda change: names.take_for_people(change, people))
        return await maintenance.complete_index(here, is_opening=True)

    def _open_again(self, name: str) -> Engine:
        """Open the database of a workspace that was idle. A workspace that was deleted meanwhile is not created."""
        if not has_data(self.settings, name):
            raise NotFound("workspace", name, "It was deleted.")
        return open_engine(self.settings, name)

    async def close_idle_workspaces(self, seconds: float = IDLE_SECONDS) -> None:
        """Close the databases of workspaces that nobody used for this long, and then until MOST_OPEN are open."""
        before, too_many = time.monotonic() - seconds, len(self.opened()) - MOST_OPEN
        idle = (one for one in self._workspaces.values() if one.is_idle)
        for number, one in enumerate(sorted(idle, key=lambda one: one.used_at)):
            if one.used_at <= before or number < too_many:
                await one.close_database()

    def opened(self) -> list[Workspace]:
        """The workspaces whose databases are open now."""
        return [one.here for one in self._workspaces.values() if one.engine.is_open]

    def _known(self) -> list[Workspace]:
        """The workspaces that were opened since the start."""
        return [one.here for one in self._workspaces.values()]

    async def upgrade_workspaces(self, at_once: int, report: Callable[[str, str | None], None]) -> int:
        """Migrate the databases of all workspaces, several at once, and complete their search indexes.

        `report` is called after each workspace, with the problem if there was one. A workspace is migrated in one
        transaction, so if this ends early, the next call continues. Returns the number of problems.
        """
        places = asyncio.Semaphore(at_once)

        async def upgrade(name: str) -> bool:
            async with places:
                try:
                    await self.open(name)
                    await asyncio.wait((self._workspaces[name].indexing,))
                except PalaverError as error:
                    report(name, str(error))
                    return False
                report(name, None)
                if self._workspaces[name].is_idle:
                    await self._workspaces[name].close_database()
                return True

        upgrades = [asyncio.create_task(upgrade(name)) for name in await self.workspaces()]
        try:
            return (await asyncio.gather(*upgrades)).count(False)
        finally:  # after an unexpected error, none of them goes on
            for one in upgrades:
                one.cancel()
            await asyncio.gather(*upgrades, return_exceptions=True)

    async def create_workspace(self, name: str, by: str = TERMINAL) -> Workspace:
        def work(change: Change) -> None:
            if not tokens.add_workspace(change, name):
                raise Refused(f"There is already a workspace '{name}'.")
            audit.append(change, "workspace", by, "create_workspace", name)

        await self._note_losses()
        if not await self._database.read(lambda read: tokens.has_workspace(read, check_name(name))):
            await asyncio.to_thread(lambda: open_engine(self.settings, name).close())  # data first, see `open`
        await self._database.change(work)
        return await self.open(name)

    async def delete_workspace(self, name: str, by: str = TERMINAL) -> int:
        """Delete a workspace for good: first its tokens and logins, then its data. Return the number of tokens."""
        if name == DEFAULT:
            raise Refused("The default workspace cannot be deleted. Delete its contents, then run 'palaver purge'.")

        def work(change: Change) -> int | None:
            if not tokens.has_workspace(change, name):
                return None
            count = len(tokens.of(change, name))
            tokens.remove_workspace(change, name)
            audit.append(change, "workspace", by, "delete_workspace", name, {"tokens": count})
            return count

        count = await self._database.change(work)
        if count is None and not await asyncio.to_thread(has_data, self.settings, check_name(name)):
            raise NotFound("workspace", name, "List workspaces with 'palaver workspace list'.")
        await self._close_workspace(name)
        until = time.monotonic() + RELEASE_SECONDS
        while not await asyncio.to_thread(remove_data, self.settings, name):  # other servers notice and close it
            if time.monotonic() > until:
                raise Conflict(
                    f"All access to '{name}' has ended, but another palaver process has its data open. Stop that "
                    "process, then delete the workspace again."
                )
            await asyncio.sleep(0.1)
        await asyncio.to_thread(self._database.wipe)
        return count or 0

    async def _close_workspace(self, name: str) -> None:
        if one := self._workspaces.pop(name, None):
            one.here.dismiss_listeners()
            await asyncio.to_thread(one.here.close)

    async def workspaces(self) -> list[str]:
        """The names of all workspaces, including the default one even if it was never opened."""
        names = await self.listed_workspaces()
        return names if DEFAULT in names else sorted([DEFAULT, *names])

    async def listed_workspaces(self) -> list[str]:
        """The names of workspaces in the server database."""
        await self._note_losses()
        return await self._database.read(tokens.workspaces)

    async def unlisted_workspaces(self) -> list[str]:
        """The names of workspaces that have data but are not in the server database."""
        there = await asyncio.to_thread(workspaces_with_data, self.settings)
        return sorted(set(there) - set(await self.listed_workspaces()))

    # State of the server database

    async def _note_losses(self) -> None:
        """Record once in the audit log that the server database, or its write-ahead log, was missing."""
        if self._has_noted_losses:
            return
        self._has_noted_losses = True
        if self._unlisted:
            log.warning("the list of workspaces, the tokens and the audit log were missing; empty ones were created")
            await self._database.change(lambda change: data_losses.note_lost_server_database(change, self._unlisted))
        if self._database.has_lost_log:
            log.warning("the write-ahead log of the server database was missing; its latest changes may be lost")
            await self._database.change(lambda change: data_losses.note(change, data_losses.LOG))
        if not await self._database.read(audit.is_protected):
            log.warning("the protection of the audit log against changes was missing; it was created again")
            await self._database.change(data_losses.restore_audit_protection)

    async def losses(self) -> list[str]:
        """Data that was found missing and that no administrator has acknowledged."""
        await self._note_losses()
        return await self._database.read(data_losses.unsettled)

    async def audit_log(self, workspace: str | None = None, kind: str | None = None, limit: int = 100) -> list[Entry]:
        """The latest entries, newest first."""
        return await self._database.read(lambda read: audit.latest(read, workspace=workspace, kind=kind, limit=limit))

    async def check(self) -> list[str]:
        """Problems of the server database and the audit log."""
        await self._note_losses()
        found = await asyncio.to_thread(self._database.check)
        found = found or await self._database.read(
            lambda read: [f"{t} is missing" for t in missing_tables.missing(read.connection, "server")]
        )
        return found or await self._database.read(audit.problems)

    async def signs(self) -> list[HealthProblem]:
        """Problems that a quick look shows, for /readyz. They name no workspace's content."""
        found = [HealthProblem(says, stops=True) for says in self._database.lost_files()]
        found += [HealthProblem(says, stops=False) for says in await self.losses()]
        for here in self.opened():
            found += await health_problems(here)
            found += [
                HealthProblem(f"{one.says}. {one.advice}", stops=False)
                for one in here.check_state.status.findings
                if one.part not in LIVE_PARTS
            ]
        return found

    # Life of the process

    def start_background_tasks(self, watch: Sequence[Path] = ()) -> None:
        """Start maintenance, and the watch of the session files in the places `watch`, if there are any."""
        from palaver.operations.webhooks.sending import send_forever
        from palaver.search.vectors.background import is_set  # slow imports, and commands need none of this

        async def check_access() -> None:
            await self.access.close_ended()
            if self._workspaces.keys() - {DEFAULT}:
                for name in self._workspaces.keys() - {DEFAULT, *await self._database.read(tokens.workspaces)}:
                    await self._close_workspace(name)

        async def send_webhooks() -> None:
            for name in await self._database.read(tokens.workspaces_with_webhooks):
                with contextlib.suppress(PalaverError):
                    await self.open(name)
            await send_forever(self.opened)

        async def store_read_marks() -> None:
            for here in self.opened():
                await here.store_read_marks()

        work = [
            maintenance.sweep_forever(self.opened),
            maintenance.repeat(CLOSE_IDLE_SECONDS, "closing idle workspaces", self.close_idle_workspaces),
            maintenance.repeat(READ_MARKS_SECONDS, "storing read marks", store_read_marks),
            maintenance.repeat(CHECK_ACCESS_SECONDS, "checking tokens and logins", check_access),
            maintenance.repeat(1.0, "sending to webhooks", send_webhooks),
        ]
        work.append(asyncio.to_thread(notable.prepare))  # or the first hook of a client waits for it
        if self.settings.check_seconds:
            work.append(BackgroundCheck(self._database, self.settings.check_seconds, self._known).run_forever())
        if is_set(self.settings):
            work.append(maintenance.embed_forever(self.settings, self.opened))
        if watch:
            from palaver.operations.sessions.local_watch import WatchStatus, watch_forever

            self.watch = WatchStatus()
            work.append(watch_forever(self.open, watch, self.watch))
        self._background = [asyncio.create_task(loop) for loop in work]

    def dismiss_listeners(self) -> None:
        for here in self._known():
            here.dismiss_listeners()

    async def close(self) -> None:
        self.dismiss_listeners()
        tasks = [*(one.indexing for one in self._workspaces.values()), *self._background]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for one in self._workspaces.values():
            if one.engine.is_open:
                await one.here.store_read_marks()
            await asyncio.to_thread(one.here.close)
        await asyncio.to_thread(self._database.close)
