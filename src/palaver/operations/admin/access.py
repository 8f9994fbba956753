"""Access to the server: the tokens of all workspaces, and the console logins made with them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

from palaver.errors import Damaged, Timeout, Unavailable
from palaver.model.admin.audit import TERMINAL
from palaver.model.people import Token, TokenKind, TokenScope
from palaver.operations.admin.tokens import issue
from palaver.store.admin import audit, logins, oauth, tokens
from palaver.store.admin.active_logins import ActiveLogins
from palaver.store.admin.audit import AuditLog
from palaver.store.admin.keyring import Keyring
from palaver.store.engines.database import Change
from palaver.store.workspaces import Workspace

KNOWN_SECONDS = 600.0
"""How long a token that was found valid stays so while no database can be reached, so that recording goes on."""
MOST_KNOWN = 10_000


class Access:
    def __init__(self, trail: AuditLog, present: ActiveLogins, open: Callable[[str], Awaitable[Workspace]]) -> None:
        self._trail, self._database, self.present, self._open = trail, trail.engine, present, open
        self._known: dict[str, tuple[Token, float]] = {}
        """The tokens that were used last and when they were found valid, by the hash of their secret."""

    def keyring(self, workspace: str) -> Keyring:
        return Keyring(workspace, self._trail, self.present)

    # Tokens

    async def find_token(self, secret: str) -> Token | None:
        """The token with this secret. It is looked up at every request, so a revoked token ends at once."""
        key = tokens.hash_of(secret)
        try:
            token = await self._database.read(lambda read: tokens.find(read, secret))
        except (Damaged, Timeout):
            raise
        except Unavailable:  # nobody can revoke a token now either
            known, found_at = self._known.get(key, (None, 0.0))
            if known is None or tokens.has_expired(known) or time.monotonic() - found_at > KNOWN_SECONDS:
                raise
            return known
        self._known.pop(key, None)
        if token:
            self._known[key] = token, time.monotonic()
            if len(self._known) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
        if token and tokens.is_stale(token):
            await self._database.change(lambda change: tokens.used(change, token))
        return token

    async def tokens(self) -> list[Token]:
        return await self._database.read(tokens.everyone)

    async def create_token(
        self,
        workspace: str,
        kind: TokenKind,
        name: str,
        scopes: list[TokenScope],
        expires_in: timedelta | None = None,
    ) -> tuple[Token, str]:
        """Create a token for a person or an agent. An unknown agent is registered."""
        return await issue(await self._open(workspace), kind, name, scopes, expires_in, TERMINAL)

    async def revoke_token(self, given: str, by: str = TERMINAL) -> str:
        """Revoke the token with this id or secret, and return its id."""
        token = await self._database.read(lambda read: tokens.named(read, given))
        await self.keyring(token.workspace).revoke(token.id, by)
        return token.id

    # Console logins

    async def log_in(self, token: Token) -> str:
        """Create a login and return its cookie. It ends with its token, after 30 days, or at logout."""

        def work(change: Change) -> str:
            audit.append(change, "login", _owner(token), "log_in", token.workspace)
            return logins.begin(change, token)

        return await self._database.change(work)

    async def find_login(self, cookie: str) -> Token | None:
        """The token behind this cookie."""
        return await self._database.read(lambda read: logins.find(read, cookie))

    def login_key(self, cookie: str) -> str:
        """The key under which `present` lists the requests of this login."""
        return logins.key_of(cookie)

    async def log_out(self, cookie: str) -> None:
        """End one login and close its connections. Connections made with the token itself stay open."""

        def work(change: Change) -> None:
            token = logins.find(change, cookie)
            if token:
                audit.append(change, "logout", _owner(token), "log_out", token.workspace)
            logins.end(change, cookie)

        self.present.let_current_finish()
        await self._database.change(work)
        self.present.end(logins.key_of(cookie))

    async def log_out_everywhere(self, token_id: str) -> None:
        """End every login that was made with this token."""

        def work(change: Change) -> list[str]:
            token = next((token for token in tokens.everyone(change) if token.id == token_id), None)
            if token:
                audit.append(change, "logout", _owner(token), "log_out_everywhere", token.workspace)
            return logins.end_all(change, token_id)

        self.present.let_current_finish()
        for login in await self._database.change(work):
            self.present.end(login)

    async def close_ended(self) -> None:
        """Close connections whose token or login has expired or was ended by another process."""
        if self.present.keys:
            alive = await self._database.read(lambda read: tokens.alive(read) | logins.alive(read) | oauth.alive(read))
            for key in self.present.keys - alive:
                self.present.end(key)


def _owner(token: Token) -> str:
    return f"{token.kind} {token.name} (token {token.id})"
