"""Tokens and the list of workspaces, in the server's own database."""

from __future__ import annotations

import hashlib
import secrets
import zlib
from datetime import timedelta

from palaver.errors import NotFound
from palaver.model.people import Token
from palaver.model.times import micros, now
from palaver.store.engines.database import Change, Reader, Row
from palaver.store.rows import from_row, params_of

PREFIX = "plv_"
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _base62(number: int, length: int) -> str:
    digits = ""
    while len(digits) < length:
        number, rest = divmod(number, 62)
        digits = _ALPHABET[rest] + digits
    return digits


def _checksum(body: str) -> str:
    """A checksum, so that secret scanners and palaver recognise a token without the database."""
    return _base62(zlib.crc32(body.encode()), 6)


def mint(prefix: str = PREFIX) -> str:
    """A new random secret."""
    body = _base62(secrets.randbits(190), 32)
    return f"{prefix}{body}{_checksum(body)}"


def looks_right(secret: str, prefix: str = PREFIX) -> bool:
    """Does this text have the form and the checksum of a secret?"""
    body, checksum = secret[len(prefix) : -6], secret[-6:]
    return secret.startswith(prefix) and len(body) == 32 and secret.isascii() and _checksum(body) == checksum


def hash_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def create(change: Change, token: Token) -> str:
    """Store a token. Returns its secret, which is never stored."""
    secret = mint()
    change.run("insert_token", hash=hash_of(secret), **params_of(token))
    return secret


def find(read: Reader, secret: str) -> Token | None:
    """The token with this secret, if it is known and has not expired."""
    if not looks_right(secret):
        return None
    row = read.one("token_by_hash", hash=hash_of(secret))
    return valid(row) if row else None


def named(read: Reader, given: str) -> Token:
    """The token with this id or secret, even if it has expired. Errors do not repeat a secret."""
    if looks_right(given):
        row, shown = read.one("token_by_hash", hash=hash_of(given)), PREFIX + "…"
    else:
        row, shown = read.one("token_by_id", id=given), given
    if row is None:
        raise NotFound("token", shown, "List tokens to see their ids.")
    return from_row(Token, row)


def valid(row: Row) -> Token | None:
    """The token of this row, unless it has expired."""
    token = from_row(Token, row)
    return None if has_expired(token) else token


def has_expired(token: Token) -> bool:
    return token.expires_at is not None and token.expires_at <= now()


def used(change: Change, token: Token) -> None:
    change.run("touch_token", id=token.id, at=micros(now()))


def is_stale(token: Token) -> bool:
    """Should the time of use be stored? Once a minute is enough."""
    return token.last_used_at is None or now() - token.last_used_at > timedelta(minutes=1)


def everyone(read: Reader) -> list[Token]:
    return [from_row(Token, row) for row in read.all("tokens")]


def of(read: Reader, workspace: str) -> list[Token]:
    return [from_row(Token, row) for row in read.all("tokens_of", workspace=workspace)]


def must_exist(read: Reader, workspace: str, id: str) -> Token:
    row = read.one("token_of", workspace=workspace, id=id)
    if row is None:
        raise NotFound("token", id, "List tokens to see their ids.")
    return from_row(Token, row)


def alive(read: Reader) -> set[str]:
    """The ids of all tokens that have not expired."""
    return {row["id"] for row in read.all("live_tokens", now=micros(now()))}


def revoke(change: Change, id: str) -> None:
    if not change.run("delete_token", id=id):
        raise NotFound("token", id, "List tokens to see their ids.")


def workspaces(read: Reader) -> list[str]:
    return [row["name"] for row in read.all("workspaces")]


def workspaces_with_webhooks(read: Reader) -> list[str]:
    return [row["name"] for row in read.all("workspaces_with_webhooks")]


def has_workspace(read: Reader, name: str) -> bool:
    return read.one("workspace", name=name) is not None


def add_workspace(change: Change, name: str) -> bool:
    return bool(change.run("insert_workspace", name=name, created_at=micros(now())))


def remove_workspace(change: Change, name: str) -> None:
    """Remove a workspace from the list, with its tokens and logins."""
    change.run("delete_workspace", name=name)
