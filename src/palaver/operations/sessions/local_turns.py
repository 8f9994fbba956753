"""Record watched turns in a workspace on this machine. Their marks are in its database."""

from __future__ import annotations

import asyncio

from palaver.errors import Forbidden
from palaver.model.people import Caller
from palaver.model.sessions import Mark, Owner, Turn
from palaver.model.times import now
from palaver.operations.sessions.carry_over import carry_over
from palaver.operations.sessions.merge import MergedTurns, merge
from palaver.operations.sessions.owners import recording_owner
from palaver.operations.sessions.session_index import catch_up_all
from palaver.operations.sessions.watch import SessionTurns
from palaver.store.sessions import followed_files
from palaver.store.workspaces import Workspace


class LocalTurns:
    """A `TurnStore` of a workspace."""

    def __init__(self, here: Workspace, caller: Caller) -> None:
        if "write" not in caller.scopes:
            raise Forbidden("This token has no 'write' scope. Ask for one that has: palaver token create.")
        self._here, self._caller = here, caller
        self._owners: dict[tuple[str, str], Owner] = {}
        self._lock = asyncio.Lock()

    async def open(self, paths: list[str] | None) -> dict[str, Mark]:
        if paths is None:
            await catch_up_all(self._here)
            await carry_over(self._here)
        return await self._here.read(lambda read: followed_files.marks(read, paths))

    async def keep_mark(self, mark: Mark, instead_of: str | None) -> None:
        await self._here.change(lambda change: followed_files.keep(change, mark, instead_of))

    async def merge(self, agent: str, session: SessionTurns) -> MergedTurns:
        owner, at = await self._owner(agent, session), now()
        turns = [
            Turn(
                said.id, session.session_id, owner.id, said.role, said.text, said.ts or session.written, at,
                session.project, session.program, said.tool,
            )
            for said in session.said
        ]  # fmt: skip
        return await merge(self._here, owner, session.session_id, turns, session.removed, replace=session.replace)

    async def removed_turns(self, agent: str, session: SessionTurns) -> set[str] | None:
        owner = await self._owner(agent, session)
        taken_back = await asyncio.to_thread(self._here.transcripts.taken_back, owner)
        return {turn_id for at, turn_id in taken_back if at == session.session_id}

    async def _owner(self, name: str, session: SessionTurns) -> Owner:
        """The agent whose session this is. It is registered if it is new."""
        key = (name, session.session_id if session.program else "")
        async with self._lock:
            if key not in self._owners:
                owner = await recording_owner(
                    self._here, self._caller, name, session.program, session.project, session.session_id
                )
                await asyncio.to_thread(self._here.transcripts.write_owner, owner)
                self._owners[key] = owner
        return self._owners[key]
