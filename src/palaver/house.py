"""The composition root: settings become workspaces, and whoever needs one asks here."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from datetime import timedelta
from typing import Literal

from palaver.errors import NotFound, Refused
from palaver.model.people import Scope, Token
from palaver.model.times import now
from palaver.operations.session_index import catch_up_all
from palaver.settings import Settings
from palaver.store import agents, documents, events, logins, tokens
from palaver.store.database import Change, Engine
from palaver.store.workspaces import DEFAULT as DEFAULT
from palaver.store.workspaces import Workspace, checked_name, open_engine

SWEEP_SECONDS = 5.0
CATCH_UP_SECONDS = 2.0
BACKFILLED_AT_ONCE = 500
SWEEPS_BETWEEN_LOOKS = 6

log = logging.getLogger("palaver")


class House:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._own: Engine = open_engine(settings, "house", "house")
        self._workspaces: dict[str, Workspace] = {}
        self._sweeper: asyncio.Task[None] | None = None
        self._catching_up: set[asyncio.Task[None]] = set()

    async def open(self, name: str = DEFAULT) -> Workspace:
        """A workspace that exists; the default one always does."""
        if name not in self._workspaces:
            if name == DEFAULT:
                await self._own.change(lambda change: tokens.add_workspace(change, DEFAULT))
            elif not await self._own.read(lambda read: tokens.has_workspace(read, name)):
                raise NotFound("workspace", name, "Create it with 'palaver workspace create NAME'.")
            engine = await asyncio.to_thread(open_engine, self.settings, name)
            if name in self._workspaces:
                engine.close()
            else:
                self._workspaces[name] = Workspace(name, engine, self.settings)
                await self._begin_catching_up(self._workspaces[name])
        return self._workspaces[name]

    async def _begin_catching_up(self, here: Workspace) -> None:
        """What was recorded while nobody indexed it. Mostly nothing, or little: then it is done before anybody asks."""
        task = asyncio.create_task(_catch_up(here))
        self._catching_up.add(task)
        task.add_done_callback(self._catching_up.discard)
        await asyncio.wait((task,), timeout=CATCH_UP_SECONDS)

    async def create_workspace(self, name: str) -> Workspace:
        if not await self._own.change(lambda change: tokens.add_workspace(change, checked_name(name))):
            raise Refused(f"There is already a workspace '{name}'.")
        return await self.open(name)

    async def workspaces(self) -> list[str]:
        await self._own.change(lambda change: tokens.add_workspace(change, DEFAULT))
        return await self._own.read(tokens.workspaces)

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
        scopes: list[Scope],
        expires_in: timedelta | None = None,
    ) -> tuple[Token, str]:
        """A token for a human, or for an agent, which comes to be if it is new."""
        here = await self.open(workspace)
        agent_id = None
        if kind == "agent":
            agent_id, name = await here.change(lambda change: _known_agent(change, name))
        expires_at = now() + expires_in if expires_in else None
        return await self._own.change(
            lambda change: tokens.create(
                change,
                workspace=workspace,
                kind=kind,
                name=name,
                agent_id=agent_id,
                scopes=scopes,
                expires_at=expires_at,
            )
        )

    async def tokens(self) -> list[Token]:
        return await self._own.read(tokens.everyone)

    async def revoke_token(self, id: str) -> None:
        await self._own.change(lambda change: tokens.revoke(change, id))

    # The console's logins

    async def log_in(self, token: Token) -> str:
        """A cookie that stands for the token until it is revoked, runs out, or is logged out."""
        return await self._own.change(lambda change: logins.begin(change, token))

    async def logged_in(self, cookie: str) -> Token | None:
        return await self._own.read(lambda read: logins.find(read, cookie))

    async def log_out(self, cookie: str) -> None:
        await self._own.change(lambda change: logins.end(change, cookie))

    async def log_out_everywhere(self, token_id: str) -> None:
        await self._own.change(lambda change: logins.end_all(change, token_id))

    # Housekeeping

    def start_sweeping(self) -> None:
        self._sweeper = asyncio.create_task(self._sweep_for_ever())

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
        if self._sweeper:
            self._sweeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._sweeper
        for here in self._workspaces.values():
            await asyncio.to_thread(here.close)
        await asyncio.to_thread(self._own.close)


def _known_agent(change: Change, name: str) -> tuple[str, str]:
    agent = agents.named(change, name)
    if agent is None:
        agent, _ = agents.register(change, name=name, slug=agents.slug_of(name), is_online=False)
    return agent.id, agent.slug


async def _catch_up(here: Workspace) -> None:
    try:
        if not await here.read(documents.is_complete):
            while await here.change(lambda change: documents.backfill(change, BACKFILLED_AT_ONCE)):
                pass
        await catch_up_all(here)
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
