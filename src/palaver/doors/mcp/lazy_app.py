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

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from palaver.app import App
from palaver.doors.http.guard import refuse
from palaver.errors import Unavailable

WEBSOCKET = "/mcp/ws"
PATHS = frozenset({"/mcp", WEBSOCKET, "/sse", "/messages", "/messages/"})
MODULES = ("palaver.doors.mcp.server", "palaver.doors.mcp.stdio", "palaver.doors.oauth.handlers")
"""The modules that need the SDK."""

log = logging.getLogger("palaver")


class LazyMcpRoute(BaseRoute):
    """The route of all MCP paths. Requests wait until the SDK is loaded."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._door: ASGIApp | None = None
        self._is_decided = asyncio.Event()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_mine = scope["path"] in PATHS and scope["type"] == ("websocket" if scope["path"] == WEBSOCKET else "http")
        return (Match.FULL if is_mine else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            door = await self.loaded()
        except Unavailable as problem:
            await refuse(problem, self._app.settings.max_body, scope, receive, send)
            return
        await door(scope, receive, send)

    async def loaded(self) -> ASGIApp:
        """Wait until the modules that need the SDK are loaded."""
        await self._is_decided.wait()
        return self.door()

    def door(self) -> ASGIApp:
        """The application of MCP. An error says why there is none."""
        if self._door is None and self._is_decided.is_set():
            raise Unavailable("MCP and OAuth do not work: the server could not load them. Its log says why.")
        if self._door is None:
            raise Unavailable("The server is starting: MCP and OAuth are being loaded. Try again in a moment.")
        return self._door

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
                self._door = door
                self._is_decided.set()
                await asyncio.Event().wait()
        except Exception:
            log.exception("MCP and OAuth do not work")
            self._door = None
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
