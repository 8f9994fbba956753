"""The tokens and the audit entries of one workspace. It gives no access to another workspace."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from palaver.errors import PalaverError
from palaver.model.admin.audit import Deed, Facts, Kind
from palaver.model.admin.oauth import Application
from palaver.model.people import Token
from palaver.store.admin import audit, oauth, tokens
from palaver.store.admin.active_logins import ActiveLogins
from palaver.store.admin.audit import AuditLog
from palaver.store.engines.database import Change

log = logging.getLogger("palaver")


class Keyring:
    def __init__(self, workspace: str, trail: AuditLog, present: ActiveLogins) -> None:
        self.workspace = workspace
        self._trail, self._database, self._present = trail, trail.engine, present

    async def tokens(self) -> list[Token]:
        return await self._database.read(lambda read: tokens.of(read, self.workspace))

    async def create(self, token: Token, by: str) -> str:
        """Store a token of this workspace. Returns its secret, which is shown only now."""

        def work(change: Change) -> str:
            facts: Facts = {
                "token_id": token.id,
                "for": f"{token.kind} {token.name}",
                "scopes": ",".join(token.scopes),
            }
            audit.append(change, "token", by, "create_token", self.workspace, facts)
            return tokens.create(change, token)

        return await self._database.change(work)

    async def revoke(self, id: str, by: str) -> Token:
        """Revoke a token and cancel its running requests."""

        def work(change: Change) -> Token:
            token = tokens.must_exist(change, self.workspace, id)
            tokens.revoke(change, id)
            audit.append(change, "token", by, "revoke_token", self.workspace, {"token_id": id})
            return token

        self._present.let_current_finish()
        token = await self._database.change(work)
        self._present.end(id)
        return token

    async def note_webhooks(self) -> None:
        """Store that this workspace has webhooks, so that servers open it when they start."""
        await self._database.change(lambda change: change.run("note_webhooks", name=self.workspace))

    # Connected applications

    async def applications(self) -> list[Application]:
        return await self._database.read(lambda read: oauth.applications(read, self.workspace))

    async def revoke_application(self, id: str, person: str | None, by: str) -> Application:
        """Revoke an application and cancel its running requests. With `person`: only one that this person let in."""

        def work(change: Change) -> Application:
            found = oauth.must_exist(change, id, self.workspace, person)
            oauth.revoke(change, found, by)
            return found

        self._present.let_current_finish()
        application = await self._database.change(work)
        self._present.end(id)
        return application

    # The audit log

    async def note(self, kind: Kind, who: str, what: str, facts: Facts | None = None) -> None:
        """Add an entry for a completed action. If that fails, the error goes to the server log, not to the caller."""
        with _log_errors():
            await self._trail.note(kind, who, what, self.workspace, facts)

    async def denied(self, who: str, what: str) -> None:
        with _log_errors():
            await self._trail.denied(who, what, self.workspace)

    async def deeds(self, kind: str | None, limit: int, *, with_unknown_callers: bool = False) -> list[Deed]:
        """The actions in this workspace, newest first, without ids: these would reveal activity in other workspaces."""
        found = await self._database.read(
            lambda read: audit.latest(
                read, workspace=self.workspace, kind=kind, limit=limit, with_unknown_callers=with_unknown_callers
            )
        )
        return [entry.deed for entry in found]


@contextmanager
def _log_errors() -> Iterator[None]:
    try:
        yield
    except PalaverError as problem:
        log.error("the audit log could not be written: %s", problem.message)
