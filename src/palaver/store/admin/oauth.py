"""OAuth in the server's own database: clients, connected applications, and hashes of their codes and tokens."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from uuid import uuid4

import orjson

from palaver.errors import NotFound
from palaver.model.admin.audit import Facts
from palaver.model.admin.oauth import AccessRequest, Application, IssuedTokens, OAuthClient, OAuthSecret, SecretKind
from palaver.model.people import Agent, Token, TokenScope
from palaver.model.times import instant, micros, now
from palaver.store.admin import audit, tokens
from palaver.store.engines.database import Change, Reader
from palaver.store.rows import from_row, params_of, stored

PREFIXES: dict[SecretKind, str] = {"code": "plc_", "access": "pla_", "refresh": "plr_"}

CODE_LASTS = timedelta(seconds=60)
ACCESS_LASTS = timedelta(hours=1)
"""How long a client may use an access token, as it is told."""
LEEWAY = timedelta(minutes=1)
"""How much longer an access token is accepted. A client counts from when it got the token, which is later than when it
was made. Some clients, refused in between, do not refresh the token but ask the person again."""
REFRESH_LASTS = timedelta(days=30)
CLIENT_LASTS = timedelta(days=90)
"""How long a client is kept after it registered or got tokens."""
CONSENT_LASTS = timedelta(hours=1)
"""How long a client is kept after a person has seen what it asks for."""
MOST_CLIENTS = 1_000
"""How many clients are kept that nobody uses."""


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


# Clients


def save_client(change: Change, client: OAuthClient, address: str) -> None:
    """Store a client. Clients that nobody uses are removed when they are old or too many.

    Each address has the same share of them, so one that registers many only loses its own.
    """
    at = now()
    before = micros(at - CLIENT_LASTS)
    change.run("delete_old_oauth_clients", now=micros(at), before=before, most=MOST_CLIENTS - 1)
    change.run("save_oauth_client", **params_of(client) | {"at": micros(at), "address": address})


def keep_client(change: Change, id: str, lasts: timedelta = CONSENT_LASTS) -> None:
    """A person deals with a client, so it is not removed."""
    change.run("keep_oauth_client", id=id, until=micros(now() + lasts))


def client(read: Reader, id: str) -> OAuthClient | None:
    row = read.one("oauth_client", id=id)
    return from_row(OAuthClient, row) if row else None


# Connected applications


def connect(change: Change, asked: AccessRequest, person: Token, agent: Agent) -> tuple[str, str]:
    """A person lets an application in. Returns its id, and the code that it exchanges for tokens."""
    id, expires_at = str(uuid4())[:8], now() + CODE_LASTS
    change.run("delete_old_oauth_grants", now=micros(now()))
    change.run(
        "insert_oauth_grant",
        id=id,
        client_id=asked.client.id,
        token_id=person.id,
        application=asked.client.name,
        agent_id=agent.id,
        agent=agent.slug,
        scopes=stored(asked.scopes),
        resource=asked.resource,
        created_at=micros(now()),
        expires_at=micros(expires_at),
    )
    return id, _add_secret(change, "code", id, asked.scopes, expires_at, asked)


def applications(read: Reader, workspace: str | None = None) -> list[Application]:
    return [
        from_row(Application, row, name=row["application"])
        for row in read.all("oauth_grants", workspace=workspace, now=micros(now()))
    ]


def must_exist(read: Reader, id: str, workspace: str | None = None, person: str | None = None) -> Application:
    """The application with this id, if it is of this workspace and of this person."""
    found = next((one for one in applications(read, workspace) if one.id == id), None)
    if found is None or person not in (None, found.person):
        raise NotFound("application", id, "List the connected applications to see their ids.")
    return found


def revoke(change: Change, application: Application, by: str, facts: Facts | None = None) -> None:
    """Revoke an application with its codes and tokens."""
    change.run("delete_oauth_grant", id=application.id)
    about: Facts = {"application_id": application.id, "application": application.name}
    audit.append(change, "token", by, "revoke_application", application.workspace, about | (facts or {}))


def alive(read: Reader) -> set[str]:
    """The ids of applications and the keys of access tokens that have not expired."""
    return {row["key"] for row in read.all("live_oauth_keys", now=micros(now()))}


# Codes and tokens


def _add_secret(
    change: Change,
    kind: SecretKind,
    grant_id: str,
    scopes: list[TokenScope],
    expires_at: datetime,
    asked: AccessRequest | None = None,
) -> str:
    secret = tokens.mint(PREFIXES[kind])
    change.run(
        "insert_oauth_secret",
        hash=_hash(secret),
        grant_id=grant_id,
        kind=kind,
        scopes=stored(scopes),
        redirect_uri=asked and asked.redirect_uri,
        code_challenge=asked and asked.code_challenge,
        expires_at=micros(expires_at),
    )
    return secret


def find(read: Reader, kind: SecretKind, secret: str) -> OAuthSecret | None:
    """The code or token, also if it has expired or was used. None if it is unknown or was revoked."""
    if not tokens.looks_right(secret, PREFIXES[kind]):
        return None
    row = read.one("oauth_secret", hash=_hash(secret), kind=kind, now=micros(now()))
    if row is None:
        return None
    return OAuthSecret(
        application=from_row(Application, row, name=row["application"]),
        scopes=orjson.loads(row["secret_scopes"]),
        expires_at=instant(row["secret_expires_at"]),
        is_used=row["used_at"] is not None,
        redirect_uri=row["redirect_uri"] or "",
        code_challenge=row["code_challenge"] or "",
        key=_hash(secret),
    )


def exchange(change: Change, found: OAuthSecret, scopes: list[TokenScope]) -> IssuedTokens | None:
    """New tokens for a code or refresh token. None if it was used before."""
    at, grant = now(), found.application
    if not change.run("use_oauth_secret", hash=found.key, now=micros(at)):
        return None
    change.run("delete_old_oauth_secrets", grant_id=grant.id, now=micros(at))
    change.run("extend_oauth_grant", id=grant.id, at=micros(at), expires_at=micros(at + REFRESH_LASTS))
    keep_client(change, grant.client_id, CLIENT_LASTS)
    access = _add_secret(change, "access", grant.id, scopes, at + ACCESS_LASTS + LEEWAY)
    refresh = _add_secret(change, "refresh", grant.id, grant.scopes, at + REFRESH_LASTS)
    return IssuedTokens(access, refresh, scopes, int(ACCESS_LASTS.total_seconds()))


def used(change: Change, id: str) -> None:
    change.run("touch_oauth_grant", id=id, at=micros(now()))


# The agents of applications


def agent_id(read: Reader, workspace: str, person: str, application: str) -> str | None:
    row = read.one("oauth_agent", workspace=workspace, person=person, application=application)
    return str(row["agent_id"]) if row else None


def save_agent(change: Change, workspace: str, person: str, application: str, agent_id: str) -> None:
    change.run("save_oauth_agent", workspace=workspace, person=person, application=application, agent_id=agent_id)
