"""A visit: who came in, and into which workspace. The credential alone decides both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from palaver.app import DEFAULT, House
from palaver.errors import Unauthorized
from palaver.model.people import Caller, Session, Token
from palaver.store.workspaces import Workspace


@dataclass(frozen=True, slots=True)
class Visit:
    here: Workspace
    caller: Caller
    token_id: str | None = None
    login: str | None = None
    """Which login it is, of those who came with a cookie."""

    @property
    def keys(self) -> list[str]:
        """Whatever ends this visit when it ends."""
        return [key for key in (self.token_id, self.login) if key]


async def admit(house: House, secret: str | None, default: Literal["human", "agent"]) -> Visit:
    """Turn a credential into a visit. Without one, an open house lets everybody into its default workspace."""
    if secret is None:
        if house.settings.needs_token:
            raise Unauthorized()
        return Visit(await house.open(DEFAULT), Caller(kind=default, name=default))
    token = await house.token(secret)
    if token is None:
        raise Unauthorized("This token is not valid: it is unknown, revoked or has run out.")
    return await of_token(house, token)


async def of_token(house: House, token: Token, login: str | None = None) -> Visit:
    caller = Caller(
        kind=token.kind,
        name=token.name,
        agent_id=token.agent_id,
        scopes=frozenset(token.scopes),
        is_authenticated=True,
        token_id=token.id,
        session=Session(agent_id=token.agent_id),
    )
    return Visit(await house.open(token.workspace), caller, token.id, login)


def bearer(header: str | None) -> str | None:
    """The secret of an Authorization header. Another scheme than Bearer is refused."""
    if header is None:
        return None
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Unauthorized("Send the token as 'Authorization: Bearer plv_…'.")
    return secret.strip()
