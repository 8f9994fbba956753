"""OAuth: clients ask, people let them in as connected applications, and applications get tokens.

An application acts as an agent of its own, in the workspace of the person who let it in. It never gets more scopes than
the person has, and it ends with the token that the person had logged in with.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

from palaver.model.admin.audit import TERMINAL, Facts, signature
from palaver.model.admin.oauth import AccessRequest, Application, IssuedTokens, OAuthClient, OAuthSecret, SecretKind
from palaver.model.people import Agent, Caller, TokenScope
from palaver.model.times import now
from palaver.operations.admin import oauth_clients
from palaver.settings import LOOPBACK
from palaver.store.admin import audit, oauth, tokens
from palaver.store.admin.active_logins import ActiveLogins
from palaver.store.admin.audit import AuditLog
from palaver.store.bus import agents
from palaver.store.engines.database import Change
from palaver.store.workspaces import Workspace

ACCESS_PREFIX = oauth.PREFIXES["access"]
DOCUMENT_LASTS = timedelta(hours=1)
"""How long a metadata document is used before it is read again."""
KINDS: dict[SecretKind, str] = {"code": "code", "refresh": "refresh token"}
SERVER = "server"
"""The `who` of audit entries about what the server decided itself."""


class OAuth:
    def __init__(self, trail: AuditLog, present: ActiveLogins) -> None:
        self._database, self._present = trail.engine, present

    # Clients

    async def register(self, client: OAuthClient, address: str) -> None:
        await self._database.change(lambda change: oauth.save_client(change, client, address))

    async def known_client(self, id: str) -> OAuthClient | None:
        return await self._database.read(lambda read: oauth.client(read, id))

    async def keep_client(self, id: str) -> None:
        """A person sees what a client asks for, so it stays known until they have decided."""
        await self._database.change(lambda change: oauth.keep_client(change, id))

    async def client(self, id: str, own_hosts: tuple[str, ...], address: str) -> OAuthClient | None:
        """The client with this id. If the id is the address of a metadata document, the document is read."""
        known = await self.known_client(id)
        if not id.startswith("https://"):
            return known
        if known and known.saved_at and now() - known.saved_at < DOCUMENT_LASTS:
            return known
        client = await oauth_clients.read_document(id, own_hosts, address)
        if client:
            await self.register(client, address)
        return client

    # People let applications in

    async def connect(self, workspace: Workspace, caller: Caller, asked: AccessRequest) -> str:
        """Let an application in, with those of the scopes that the person has. Returns the code that it exchanges for
        tokens."""
        client = asked.client
        host = urlsplit(asked.redirect_uri).hostname or ""
        kind = f"{client.name} at {'this computer' if host in LOOPBACK else host}"
        known = await self._database.read(lambda read: oauth.agent_id(read, workspace.name, caller.name, kind))

        def agent_in(change: Change) -> Agent:
            agent = agents.find(change, known) if known else None
            if agent is None:
                name = f"{client.name} ({caller.name})"
                agent, _ = agents.register(change, agents.NewAgent(name, is_online=False))
            return agent

        agent = await workspace.change(agent_in)

        def work(change: Change) -> str:
            person = tokens.must_exist(change, workspace.name, caller.token_id or "")
            allowed = [scope for scope in asked.scopes if scope in person.scopes]
            oauth.save_agent(change, workspace.name, caller.name, kind, agent.id)
            id, code = oauth.connect(change, replace(asked, scopes=allowed), person, agent)
            facts: Facts = {"application_id": id, "application": client.name, "scopes": ",".join(allowed)}
            audit.append(change, "token", signature(caller), "connect_application", workspace.name, facts)
            return code

        return await self._database.change(work)

    # Applications get tokens

    async def find_unused(self, kind: SecretKind, secret: str) -> OAuthSecret | None:
        """The code or refresh token, if it was not used. One used twice was stolen: the application is revoked."""
        found = await self._database.read(lambda read: oauth.find(read, kind, secret))
        if found is None or not found.is_used:
            return found
        await self._revoke_stolen(found.application, kind)
        return None

    async def find_access_token(self, secret: str) -> OAuthSecret | None:
        """The access token, if it is valid. It is looked up at every request, so a revoked one ends at once."""
        found = await self._database.read(lambda read: oauth.find(read, "access", secret))
        if found is None or found.expires_at <= now():
            return None
        if tokens.is_stale(found.token):
            await self._database.change(lambda change: oauth.used(change, found.application.id))
        return found

    async def exchange(self, kind: SecretKind, found: OAuthSecret, scopes: list[TokenScope]) -> IssuedTokens | None:
        """New tokens for a code or refresh token. None if another request has used it meanwhile."""
        issued = await self._database.change(lambda change: oauth.exchange(change, found, scopes))
        if issued is None:
            await self._revoke_stolen(found.application, kind)
        return issued

    async def _revoke_stolen(self, application: Application, kind: SecretKind) -> None:
        await self._revoke(application, SERVER, {"reason": f"its {KINDS[kind]} was used twice"})

    # Connected applications

    async def applications(self) -> list[Application]:
        return await self._database.read(oauth.applications)

    async def revoke(self, id: str, by: str = TERMINAL) -> Application:
        """Revoke an application of any workspace: its tokens and its connections end."""
        application = await self._database.read(lambda read: oauth.must_exist(read, id))
        await self._revoke(application, by)
        return application

    async def end(self, application: Application) -> None:
        """An application revokes its own access."""
        await self._revoke(application, f"agent {application.agent} (token {application.id})")

    async def _revoke(self, application: Application, by: str, facts: Facts | None = None) -> None:
        await self._database.change(lambda change: oauth.revoke(change, application, by, facts))
        self._present.end(application.id)
