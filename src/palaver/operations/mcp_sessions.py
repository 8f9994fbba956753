"""MCP sessions over HTTP that any server can continue."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from palaver.errors import PalaverError
from palaver.model.events import encode
from palaver.store.bus import mcp_sessions
from palaver.store.bus.mcp_sessions import McpSession
from palaver.store.workspaces import Workspace

KEPT = ("clientInfo", "config")
"""The parameters of the initialize message that are stored."""
MOST_BYTES = 20_000


async def begin(here: Workspace, session_id: str, token_id: str | None, params: dict[str, Any]) -> None:
    """Remember how a session began."""
    opening = {name: params[name] for name in KEPT if name in params}
    if len(encode(opening)) > MOST_BYTES:
        opening = {}
    await here.store_soon(lambda change: mcp_sessions.put(change, session_id, token_id, opening))


async def end(here: Workspace, session_id: str, token_id: str | None) -> None:
    """The client has ended a session: no server continues it."""
    with suppress(PalaverError):
        await here.change(lambda change: mcp_sessions.put(change, session_id, token_id, None))


async def find(here: Workspace, session_id: str, seconds: float | None = None) -> McpSession | None:
    """How a session began, if that is known within this time."""
    with suppress(PalaverError, TimeoutError):
        async with asyncio.timeout(seconds):
            return await here.read(lambda read: mcp_sessions.find(read, session_id))
    return None


async def keep(here: Workspace, session_id: str) -> None:
    """A server continues a session, so it is remembered longer."""
    await here.store_soon(lambda change: mcp_sessions.keep(change, session_id))
