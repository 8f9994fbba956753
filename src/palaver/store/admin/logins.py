"""Logins to the console. A cookie replaces the token; only a hash of the cookie is stored."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from palaver.model.people import Token
from palaver.model.times import micros, now
from palaver.store.admin import tokens
from palaver.store.engines.database import Change, Reader

LASTS = timedelta(days=30)
"""How long a login is valid."""
PREFIX = "pls_"


def key_of(cookie: str) -> str:
    """The hash under which a cookie is stored."""
    return hashlib.sha256(cookie.encode()).hexdigest()


def begin(change: Change, token: Token) -> str:
    """Start a login and return its cookie."""
    cookie, at = PREFIX + secrets.token_urlsafe(32), now()
    change.run("delete_old_logins", now=micros(at))
    change.run(
        "insert_login", hash=key_of(cookie), token_id=token.id, created_at=micros(at), expires_at=micros(at + LASTS)
    )
    return cookie


def find(read: Reader, cookie: str) -> Token | None:
    """The token of a cookie, if both are valid."""
    if not cookie.startswith(PREFIX):
        return None
    row = read.one("token_by_login", hash=key_of(cookie), now=micros(now()))
    return tokens.valid(row) if row else None


def end(change: Change, cookie: str) -> None:
    change.run("delete_login", hash=key_of(cookie))


def end_all(change: Change, token_id: str) -> list[str]:
    """End all logins of a token. Returns their keys."""
    ended = [str(row["hash"]) for row in change.all("logins_of_token", token_id=token_id)]
    change.run("delete_logins", token_id=token_id)
    return ended


def alive(read: Reader) -> set[str]:
    """The keys of all valid logins."""
    return {row["hash"] for row in read.all("live_logins", now=micros(now()))}
