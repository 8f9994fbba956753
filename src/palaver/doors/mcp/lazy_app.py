"""Workaround: load the MCP SDK in the background, so that the other routes start at once.

Importing the SDK takes about a second (modelcontextprotocol/python-sdk#1508). MCP and OAuth wait for the same import:
Python ends one of two threads that import the same package with an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import threading
from collections.abc import AsyncIterator

from starlette.routing import BaseRoute, Match, Router
from starlette.types import Receive, Scope, Send

from palaver.app import App
from palaver.doors.http.guard import refuse
from palaver.errors import Unavailable

PATHS = frozenset({"/mcp", "/mcp/ws", "/sse", "/messages", "/messages/"})
MODULES = ("palaver.doors.mcp.server", "palaver.doors.mcp.stdio", "palaver.doors.oauth.handlers")
"""The modules that need the SDK."""

log = logging.getLogger("palaver")


class LazyMcpRoute(BaseRoute):
    """The route of all MCP paths. Requests wait until the SDK is loaded."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._router: Router | None = None
        self._is_decided = asyncio.Event()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_mine = scope["type"] in ("http", "websocket") and scope["path"] in PATHS
        return (Match.FULL if is_mine else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            router = await self.loaded()
        except Unavailable as problem:
            await refuse(problem, self._app.settings.max_body, scope, receive, send)
            return
        await router(scope, receive, send)

    async def loaded(self) -> Router:
        """Wait until the modules that need the SDK are loaded."""
        await self._is_decided.wait()
        return self.router()

    def router(self) -> Router:
        """The routes of MCP. An error says why there are none."""
        if self._router is None and self._is_decided.is_set():
            raise Unavailable("MCP and OAuth do not work: the server could not load them. Its log says why.")
        if self._router is None:
            raise Unavailable("The server is starting: MCP and OAuth are being loaded. Try again in a moment.")
        return self._router

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        try:
            await _import_in_thread()
            from palaver.doors.mcp.server import McpDoor

            door = McpDoor(self._app)
            async with door.running():
                self._router = Router(door.routes())
                self._is_decided.set()
                await asyncio.Event().wait()
        except Exception:
            log.exception("MCP and OAuth do not work")
            self._router = None
            self._is_decided.set()


async def _import_in_thread() -> None:
    """Import in a daemon thread, so that a server that is stopped meanwhile exits at once."""
    loop, is_done = asyncio.get_running_loop(), asyncio.Event()
    problems: list[BaseException] = []

    def work() -> None:
        try:
            for name in MODULES:
                importlib.import_module(name)
        except BaseException as problem:
            problems.append(problem)
        with contextlib.suppress(RuntimeError):  # the server was stopped meanwhile
            loop.call_soon_threadsafe(is_done.set)

    threading.Thread(target=work, name="import MCP", daemon=True).start()
    await is_done.wait()
    if problems:
        raise RuntimeError("the MCP SDK could not be imported") from problems[0]
