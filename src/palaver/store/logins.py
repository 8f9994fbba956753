"""Logins to the console: a cookie stands for the token that was shown once. Only a hash of it is kept."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from palaver.model.people import Token
from palaver.model.times import micros, now
from palaver.store import tokens
from palaver.store.database import Change, Reader

LASTS = timedelta(days=30)
PREFIX = "pls_"


def _hash(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()


def begin(change: Change, token: Token) -> str:
    """A new login; what it returns is the cookie."""
    cookie, at = PREFIX + secrets.token_urlsafe(32), now()
    change.run("delete_old_logins", now=micros(at))
    change.run(
        "insert_login", hash=_hash(cookie), token_id=token.id, created_at=micros(at), expires_at=micros(at + LASTS)
    )
    return cookie


def find(read: Reader, cookie: str) -> Token | None:
    """The token behind a cookie, while both are valid."""
    if not cookie.startswith(PREFIX):
        return None
    row = read.one("token_by_login", hash=_hash(cookie), now=micros(now()))
    return tokens.valid(row) if row else None


def end(change: Change, cookie: str) -> None:
    change.run("delete_login", hash=_hash(cookie))


def end_all(change: Change, token_id: str) -> None:
    change.run("delete_logins", token_id=token_id)
