"""Logins to the console: a cookie stands for the token that was shown once. Only a hash of it is kept."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from palaver.model.people import Token
from palaver.model.times import micros, now
from palaver.store.admin import tokens
from palaver.store.engines.database import Change, Reader

LASTS = timedelta(days=30)
PREFIX = "pls_"


def key_of(cookie: str) -> str:
    """What is kept of a cookie: enough to know it again."""
    return hashlib.sha256(cookie.encode()).hexdigest()


def begin(change: Change, token: Token) -> str:
    """A new login; what it returns is the cookie."""
    cookie, at = PREFIX + secrets.token_urlsafe(32), now()
    change.run("delete_old_logins", now=micros(at))
    change.run(
        "insert_login", hash=key_of(cookie), token_id=token.id, created_at=micros(at), expires_at=micros(at + LASTS)
    )
    return cookie


def find(read: Reader, cookie: str) -> Token | None:
    """The token behind a cookie, while both are valid."""
    if not cookie.startswith(PREFIX):
        return None
    row = read.one("token_by_login", hash=key_of(cookie), now=micros(now()))
    return tokens.valid(row) if row else None


def end(change: Change, cookie: str) -> None:
    change.run("delete_login", hash=key_of(cookie))


def end_all(change: Change, token_id: str) -> list[str]:
    """End every login of a token; returns their keys."""
    ended = [str(row["hash"]) for row in change.all("logins_of_token", token_id=token_id)]
    change.run("delete_logins", token_id=token_id)
    return ended


def alive(read: Reader) -> set[str]:
    """The keys of all logins that have not ended."""
    return {row["hash"] for row in read.all("live_logins", now=micros(now()))}
