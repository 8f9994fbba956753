"""Workaround: load the MCP SDK in the background, so that the other routes start at once.

Importing the SDK takes about a second (modelcontextprotocol/python-sdk#1508).
"""

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


class LazyMcpRoute(BaseRoute):
    """The route of all MCP paths. Requests wait until the SDK is loaded."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._router: asyncio.Future[Router] | None = None

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_mine = scope["type"] in ("http", "websocket") and scope["path"] in PATHS
        return (Match.FULL if is_mine else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        router = await self.loaded()
        await router(scope, receive, send)

    async def loaded(self) -> Router:
        """Wait until the SDK is loaded."""
        assert self._router is not None
        return await asyncio.shield(self._router)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._router = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run(self._router))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self, loaded: asyncio.Future[Router]) -> None:
        try:
            mcp = await import_in_thread("palaver.doors.mcp.server")
            door = mcp.McpDoor(self._app)
            async with door.running():
                loaded.set_result(Router(door.routes()))
                await asyncio.Event().wait()
        except Exception as problem:
            if not loaded.done():
                loaded.set_exception(problem)
            raise


async def import_in_thread(name: str) -> Any:
    """Import in a daemon thread, so that a server that is stopped meanwhile exits at once."""
    loop = asyncio.get_running_loop()
    imported = loop.create_future()

    def hand_over(module: Any) -> None:
        if not imported.cancelled():
            imported.set_result(module)

    def work() -> None:
        module = importlib.import_module(name)
        with contextlib.suppress(RuntimeError):  # the server was stopped meanwhile
            loop.call_soon_threadsafe(hand_over, module)

    threading.Thread(target=work, name=f"import {name}", daemon=True).start()
    return await imported
