"""The MCP door opens a moment after the others: its library takes a second to load, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import threading
from collections.abc import AsyncIterator
from typing import Any

from starlette.routing import BaseRoute, Match, Router
from starlette.types import Receive, Scope, Send

from palaver.app import App

PATHS = frozenset({"/mcp", "/mcp/ws", "/sse", "/messages", "/messages/"})


class LateMcp(BaseRoute):
    """A route that takes everything meant for agents, and holds it until the door is open."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._opened: asyncio.Future[Router] | None = None

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_mine = scope["type"] in ("http", "websocket") and scope["path"] in PATHS
        return (Match.FULL if is_mine else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._opened is not None
        router = await asyncio.shield(self._opened)
        await router(scope, receive, send)

    @contextlib.asynccontextmanager
    async def opening(self) -> AsyncIterator[None]:
        self._opened = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run(self._opened))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self, opened: asyncio.Future[Router]) -> None:
        try:
            mcp = await _imported("palaver.doors.mcp")
            door = mcp.McpDoor(self._app)
            async with door.running():
                opened.set_result(Router(door.routes()))
                await asyncio.Event().wait()
        except Exception as problem:
            if not opened.done():
                opened.set_exception(problem)
            raise


async def _imported(name: str) -> Any:
    """Import in a thread nobody waits for: a server that is stopped in its first second ends at once."""
    loop = asyncio.get_running_loop()
    imported = loop.create_future()

    def hand_over(module: Any) -> None:
        if not imported.cancelled():
            imported.set_result(module)

    def work() -> None:
        module = importlib.import_module(name)
        with contextlib.suppress(RuntimeError):  # the loop is gone: it was stopped meanwhile
            loop.call_soon_threadsafe(hand_over, module)

    threading.Thread(target=work, name=f"import {name}", daemon=True).start()
    return await imported
