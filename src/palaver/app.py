"""The composition root: settings become workspaces, and whoever needs one asks here."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import tempfile
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal

from palaver.errors import Conflict, NotFound, Refused
from palaver.model.audit import TERMINAL, Entry
from palaver.model.people import Token, TokenScope
from palaver.model.times import now
from palaver.operations.admin.repair import Sign, missing_uploads, signs
from palaver.operations.admin.tokens import known_agent
from palaver.operations.sessions.session_index import catch_up_all
from palaver.search.vectors.background import Embedding
from palaver.settings import Settings
from palaver.store.admin import (
    audit,
    backup,
    data_losses,
    logins,
    tokens,
    trash,
)
from palaver.store.admin.active_logins import ActiveLogins
from palaver.store.admin.active_logins import LoginEnded as LoginEnded
from palaver.store.admin.audit import AuditLog
from palaver.store.admin.keyring import Keyring
from palaver.store.bus import agents, events
from palaver.store.engines import missing_tables
from palaver.store.engines.database import Change, Engine
from palaver.store.library import documents
from palaver.store.workspaces import DEFAULT as DEFAULT
from palaver.store.workspaces import (
    Workspace,
    check_name,
    engine_name,
    has_data,
    has_server_database,
    open_engine,
    remove_data,
    workspaces_with_data,
)

SWEEP_SECONDS = 5.0
SHOW_OUT_SECONDS = 0.5
EMBED_SECONDS = 2.0
CHECK_SECONDS = 600.0
LET_GO_SECONDS = 10.0
CATCH_UP_SECONDS = 2.0
BACKFILLED_AT_ONCE = 500
LOOKING_SECONDS = 120.0  # whether anything is missing: all passages are looked at for that
SWEEPS_BETWEEN_LOOKS = 6

log = logging.getLogger("palaver")


class House:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        # In this order: a house is always made before its first workspace.
        there = workspaces_with_data(settings)
        self._left_over = there if there and not has_server_database(settings) else []
        self._own: Engine = open_engine(settings, "house", "house")
        self._has_noted_losses = False
        self._workspaces: dict[str, Workspace] = {}
        self._chores: list[asyncio.Task[None]] = []
        self.trail = AuditLog(self._own)
        self.present = ActiveLogins()
        self._catching_up: set[asyncio.Task[None]] = set()

    async def open(self, name: str = DEFAULT) -> Workspace:
        """A workspace that exists; the default one always does."""
        if name not in self._workspaces:
            await self._note_losses()
            is_listed = await self._own.read(lambda read: tokens.has_workspace(read, name))
            if not is_listed and name != DEFAULT:
                raise NotFound("workspace", name, "Create it with 'palaver workspace create NAME'.")
            await self._open(name, is_listed=is_listed)
        return self._workspaces[name]

    async def _open(self, name: str, *, is_listed: bool) -> None:
        """Its data is there before it is listed: if one that is listed has no data, it was lost."""
        is_lost = is_listed and not await asyncio.to_thread(has_data, self.settings, name)
        engine = await asyncio.to_thread(open_engine, self.settings, name)
        if is_lost:
            log.warning("the database of workspace %s was missing; an empty one was made", name)
            await self._own.change(lambda change: data_losses.note_lost_workspace(change, name))
        if engine.has_lost_log:
            log.warning("the log of workspace %s was missing: its newest changes may be lost", name)
            await self._own.change(lambda change: data_losses.note_lost_log(change, name))
        if not is_listed:
            await self._own.change(lambda change: tokens.add_workspace(change, name))
        if name in self._workspaces:
            engine.close()
        else:
            self._workspaces[name] = Workspace(name, engine, self.settings, self._keyring(name))
            await self._begin_catching_up(self._workspaces[name])

    async def _note_losses(self) -> None:
        """The house's own tables were gone, or their log: noted once, so that it is told until somebody has seen it."""
        if self._has_noted_losses:
            return
        self._has_noted_losses = True
        if self._left_over:
            log.warning("the list of workspaces, the tokens and the audit log were missing; an empty one was made")
            await self._own.change(lambda change: data_losses.note_lost_server_database(change, self._left_over))
        if self._own.has_lost_log:
            log.warning("the log of the house was missing: its newest changes may be lost")
            await self._own.change(lambda change: data_losses.note_lost_log(change, None))

    async def losses(self) -> list[str]:
        """What was found to be missing, and nobody has seen yet."""
        await self._note_losses()
        return await self._own.read(data_losses.unsettled)

    async def _begin_catching_up(self, here: Workspace) -> None:
        """What was recorded while nobody indexed it. Mostly nothing, or little: then it is done before anybody asks."""
        task = asyncio.create_task(_catch_up(here, at_first_sight=True))
        self._catching_up.add(task)
        task.add_done_callback(self._catching_up.discard)
        await asyncio.wait((task,), timeout=CATCH_UP_SECONDS)

    def _keyring(self, name: str) -> Keyring:
        return Keyring(name, self.trail, self.present)

    async def create_workspace(self, name: str, by: str = TERMINAL) -> Workspace:
        def work(change: Change) -> None:
            if not tokens.add_workspace(change, name):
                raise Refused(f"There is already a workspace '{name}'.")
            audit.append(change, "workspace", by, "create_workspace", name)

        await self._note_losses()
        if not await self._own.read(lambda read: tokens.has_workspace(read, check_name(name))):
            await asyncio.to_thread(lambda: open_engine(self.settings, name).close())  # its data first, see _open
        await self._own.change(work)
        return await self.open(name)

    async def delete_workspace(self, name: str, by: str = TERMINAL) -> int:
        """Take a workspace away for good: its tokens and logins at once, then its data. Returns how many tokens."""
        if name == DEFAULT:
            raise Refused("The default workspace is always there. Delete what is in it, then run 'palaver purge'.")

        def work(change: Change) -> int | None:
            if not tokens.has_workspace(change, name):
                return None
            count = len(tokens.of(change, name))
            tokens.remove_workspace(change, name)
            audit.append(change, "workspace", by, "delete_workspace", name, {"tokens": count})
            return count

        count = await self._own.change(work)
        if count is None and not await asyncio.to_thread(has_data, self.settings, check_name(name)):
            raise NotFound("workspace", name, "'palaver workspace list' shows which there are.")
        await self._let_go(name)
        until = time.monotonic() + LET_GO_SECONDS
        while not await asyncio.to_thread(remove_data, self.settings, name):  # servers let go of it by themselves
            if time.monotonic() > until:
                raise Conflict(
                    f"Nobody can come into '{name}' any more, but another palaver has its data open. Stop it, then "
                    "delete the workspace again."
                )
            await asyncio.sleep(0.1)
        await asyncio.to_thread(self._own.wipe)
        return count or 0

    async def _let_go(self, name: str) -> None:
        here = self._workspaces.pop(name, None)
        if here:
            here.dismiss_listeners()
            await asyncio.to_thread(here.close)

    async def workspaces(self) -> list[str]:
        """Those that are listed; the default one is always there, even if nobody has opened it yet."""
        names = await self.listed_workspaces()
        return names if DEFAULT in names else sorted([DEFAULT, *names])

    async def listed_workspaces(self) -> list[str]:
        """Those that have data, or had."""
        await self._note_losses()
        return await self._own.read(tokens.workspaces)

    async def unlisted_workspaces(self) -> list[str]:
        """Those that have data and are not in the list."""
        there = await asyncio.to_thread(workspaces_with_data, self.settings)
        return sorted(set(there) - set(await self.listed_workspaces()))

    # Credentials

    async def token(self, secret: str) -> Token | None:
        """Whom a secret speaks for. Asked at every request, so a revoked token ends at once."""
        token = await self._own.read(lambda read: tokens.find(read, secret))
        if token and tokens.is_stale(token):
            await self._own.change(lambda change: tokens.used(change, token))
        return token

    async def create_token(
        self,
        workspace: str,
        kind: Literal["human", "agent"],
        name: str,
        scopes: list[TokenScope],
        expires_in: timedelta | None = None,
        by: str = TERMINAL,
    ) -> tuple[Token, str]:
        """A token for a human, or for an agent, which comes to be if it is new."""
        here = await self.open(workspace)
        agent_id = None
        if kind == "agent":
            agent_id, name = await here.change(lambda change: known_agent(change, name))
        return await self._keyring(workspace).create(kind, name, agent_id, scopes, expires_in, by)

    async def tokens(self) -> list[Token]:
        return await self._own.read(tokens.everyone)

    async def revoke_token(self, given: str, by: str = TERMINAL) -> str:
        """End a token, named by its id or by the token itself; returns the id."""
        token = await self._own.read(lambda read: tokens.named(read, given))
        await self._keyring(token.workspace).revoke(token.id, by)
        return token.id

    # What was done

    async def deeds(self, workspace: str | None = None, kind: str | None = None, limit: int = 100) -> list[Entry]:
        return await self._own.read(lambda read: audit.latest(read, workspace=workspace, kind=kind, limit=limit))

    async def check(self) -> list[str]:
        """What is wrong with the house's own tables and its audit log."""
        await self._note_losses()
        found = await asyncio.to_thread(self._own.check)
        found = found or await self._own.read(
            lambda read: [f"{t} is missing" for t in missing_tables.missing(read, "house")]
        )
        return found or await self._own.read(audit.problems, timeout=CHECK_SECONDS)

    async def backup(self, to: Path, version: str, by: str = TERMINAL) -> int:
        """Copy everything into one file while others go on working; returns how many workspaces that were."""
        names = await self.workspaces()
        with backup.write_backup(to, engine_name(self.settings), version) as copy:
            databases = {"house": self._own.copy_into}
            for name in names:
                here = await self.open(name)
                databases[f"workspaces/{name}"] = here.copy_into
            for name, copy_into in databases.items():
                with tempfile.TemporaryDirectory(prefix=".backup-", dir=to.parent) as folder:
                    number = await asyncio.to_thread(copy_into, Path(folder))
                    await asyncio.to_thread(copy.add_database, name, Path(folder), number)
            for name in backup.FOLDERS:
                await asyncio.to_thread(copy.add_folder, self.settings.data / name, name)
        await self.trail.note("upkeep", by, "backup", facts={"workspaces": len(names)})
        return len(names)

    async def purge(self, name: str, by: str = TERMINAL) -> Purged:
        """Take away for good what was deleted in a workspace: afterwards no file holds a byte of it."""
        here = await self.open(name)
        items = 0
        while count := await here.change(trash.empty_trash):
            items += count
        await here.change(trash.forget_events)
        in_use = await here.read(trash.images_in_use, timeout=CHECK_SECONDS)
        images = await asyncio.to_thread(trash.remove_images, self.settings.data / "uploads" / name, in_use)
        await here.wipe()
        await asyncio.to_thread(self._own.wipe)
        await self.trail.note("deletion", by, "purge", name, {"items": items, "images": images})
        return Purged(name, items, images)

    # The console's logins

    async def log_in(self, token: Token) -> str:
        """A cookie that stands for the token until it is revoked, runs out, or is logged out."""

        def work(change: Change) -> str:
            audit.append(change, "login", _bearer(token), "log_in", token.workspace)
            return logins.begin(change, token)

        return await self._own.change(work)

    async def logged_in(self, cookie: str) -> Token | None:
        return await self._own.read(lambda read: logins.find(read, cookie))

    def login_of(self, cookie: str) -> str:
        """The name under which whoever came with this cookie stays here."""
        return logins.key_of(cookie)

    async def log_out(self, cookie: str) -> None:
        """End a login. What stands open with it closes; what its token has opened elsewhere does not."""

        def work(change: Change) -> None:
            token = logins.find(change, cookie)
            if token:
                audit.append(change, "logout", _bearer(token), "log_out", token.workspace)
            logins.end(change, cookie)

        self.present.let_current_finish()
        await self._own.change(work)
        self.present.end(logins.key_of(cookie))

    async def log_out_everywhere(self, token_id: str) -> None:
        def work(change: Change) -> list[str]:
            token = next((token for token in tokens.everyone(change) if token.id == token_id), None)
            if token:
                audit.append(change, "logout", _bearer(token), "log_out_everywhere", token.workspace)
            return logins.end_all(change, token_id)

        self.present.let_current_finish()
        for login in await self._own.change(work):
            self.present.end(login)

    # Housekeeping

    async def signs(self) -> list[Sign]:
        """What can be seen at a glance to be wrong, without saying whose it is."""
        found = [Sign(says, stops=True) for says in self._own.lost_files()]
        found += [Sign(says, stops=False) for says in await self.losses()]
        for here in list(self._workspaces.values()):
            found += await signs(here)
        return found

    def start_sweeping(self) -> None:
        self._chores = [asyncio.create_task(self._sweep_for_ever()), asyncio.create_task(self._show_out_for_ever())]
        if self.settings.model != "builtin":
            self._chores.append(asyncio.create_task(self._embed_for_ever()))

    async def _embed_for_ever(self) -> None:
        """What was written since the last round gets its vectors."""
        embedding = Embedding()
        while True:
            for here in list(self._workspaces.values()):
                try:
                    await embedding.go_over(here)
                except Exception as problem:  # the next round may go better
                    log.warning("vectors of %s: %s", here.name, problem)
            await asyncio.sleep(EMBED_SECONDS)

    async def _show_out_for_ever(self) -> None:
        """Whose token or login was ended by another process, or has run out while they are here, has to go.

        So has a workspace that another process deleted.
        """
        while True:
            await asyncio.sleep(SHOW_OUT_SECONDS)
            try:
                if self.present.keys:
                    alive = await self._own.read(lambda read: tokens.alive(read) | logins.alive(read))
                    for key in self.present.keys - alive:
                        self.present.end(key)
                if self._workspaces.keys() - {DEFAULT}:
                    for name in self._workspaces.keys() - {DEFAULT, *await self._own.read(tokens.workspaces)}:
                        await self._let_go(name)
            except Exception as problem:  # the next round may go better
                log.warning("tokens could not be checked: %s", problem)

    async def _sweep_for_ever(self) -> None:
        for number in itertools.count(1):
            for here in list(self._workspaces.values()):
                try:
                    await sweep(here)
                except Exception as problem:  # the next round may go better
                    log.warning("housekeeping in %s: %s", here.name, problem)
                if number % SWEEPS_BETWEEN_LOOKS == 0:
                    await _catch_up(here)
            await asyncio.sleep(SWEEP_SECONDS)

    def dismiss_listeners(self) -> None:
        for here in self._workspaces.values():
            here.dismiss_listeners()

    async def close(self) -> None:
        self.dismiss_listeners()
        for task in list(self._catching_up):
            task.cancel()
        for chore in self._chores:
            chore.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await chore
        for here in self._workspaces.values():
            await asyncio.to_thread(here.close)
        await asyncio.to_thread(self._own.close)


def restore_from(settings: Settings, file: Path) -> list[str]:
    """Put a backup back where nothing is yet; returns the names of its workspaces."""
    return backup.restore(settings, file).workspaces


@dataclass(frozen=True, slots=True)
class Purged:
    workspace: str
    items: int
    images: int


def _bearer(token: Token) -> str:
    return f"{token.kind} {token.name} (token {token.id})"


async def _catch_up(here: Workspace, *, at_first_sight: bool = False) -> None:
    """Looking at every passage takes 0.4 s at a million of them: who opens a workspace compares numbers first."""
    try:
        if made := await here.create_missing_tables():
            log.warning("the search index of %s was missing; it is made again: %s", here.name, ", ".join(made))
        seems_complete = at_first_sight and await here.read(documents.seems_complete, timeout=LOOKING_SECONDS)
        if not seems_complete and not await here.read(documents.is_complete, timeout=LOOKING_SECONDS):
            while await here.change(lambda change: documents.backfill(change, BACKFILLED_AT_ONCE)):
                pass
        await here.change(lambda change: change.connection.dialect.tidy(change.connection))
        if not await here.read(documents.has_marked_human_only):
            await here.change(documents.mark_human_only)
        await catch_up_all(here)
        here.missing_uploads = await missing_uploads(here)
    except Exception as problem:  # whatever it is, it must not end the housekeeping
        log.warning("the index of %s is behind: %s", here.name, problem)


async def sweep(here: Workspace) -> None:
    """Agents that fell silent go offline; old events are forgotten."""
    before = now() - timedelta(seconds=here.settings.heartbeat_timeout)
    silent = await here.read(lambda read: agents.silent_since(read, before))
    first, last = await here.read(events.bounds)
    too_many = last - first + 1 > here.settings.keep_events * 1.1
    if not silent and not too_many:
        return

    def tidy(change: Change) -> None:
        from palaver.model.events import agent_offline

        for agent in agents.silent_since(change, before):
            agents.leave(change, agent, "timed out")
            change.tell(agent_offline(agents.must_exist(change, agent.id)))
        if too_many:
            events.forget_old(change, here.settings.keep_events)

    await here.change(tidy)
