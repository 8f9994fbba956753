"""MCP sessions over HTTP: how each began, and whether its client has ended it. Any server can then continue one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson

from palaver.model.times import micros, now
from palaver.store.bus.agents import connection_key
from palaver.store.engines.database import Change, Reader

KEPT = timedelta(days=7)
"""How long a session is remembered after a server has begun or continued it."""
ENDED = ""


@dataclass(frozen=True, slots=True)
class McpSession:
    """How a session began: the parameters of its initialize message."""

    token_id: str | None
    opening: dict[str, Any] | None
    """None if the client has ended the session."""


def put(change: Change, session_id: str, token_id: str | None, opening: dict[str, Any] | None) -> None:
    """Store how a session began; None: its client has ended it."""
    encoded = ENDED if opening is None else orjson.dumps(opening).decode()
    about = {"token_id": token_id, "opening": encoded, "used_at": micros(now())}
    change.run("put_mcp_session", id_hash=connection_key(session_id), **about)


def find(read: Reader, session_id: str) -> McpSession | None:
    row = read.one("mcp_session", id_hash=connection_key(session_id))
    if row is None:
        return None
    return McpSession(row["token_id"], orjson.loads(row["opening"]) if row["opening"] != ENDED else None)


def keep(change: Change, session_id: str) -> None:
    """A session is in use, so it is remembered longer."""
    change.run("touch_mcp_session", id_hash=connection_key(session_id), used_at=micros(now()))


def forget_old(change: Change) -> None:
    change.run("forget_mcp_sessions", before=micros(now() - KEPT))
