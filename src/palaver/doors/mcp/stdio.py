"""MCP on stdio: one JSON-RPC message per line. The caller is authenticated once.

The lines come from the standard input of this process, or from a `palaver mcp` process that is connected to the server.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import suppress
from io import TextIOWrapper
from typing import Any, Protocol, cast

import anyio
import orjson
from mcp.server.runner import serve_dual_era_loop, serve_loop
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from palaver.app import App
from palaver.doors.authentication import StdioClient
from palaver.doors.mcp import channel
from palaver.doors.mcp.connection import release_agent
from palaver.doors.mcp.requests import McpRequests
from palaver.doors.mcp.workarounds import replace_lone_surrogates
from palaver.operations import identity

DRAIN_SECONDS = 10.0
"""How long answers can take after the end of the input."""


class Output(Protocol):
    async def write(self, text: str, /) -> Any: ...

    async def flush(self) -> None: ...


async def serve_lines(app: App, client: StdioClient, lines: AsyncIterable[str], output: Output | None = None) -> None:
    """Serve one client until its lines end. If the server stops, the client keeps its agent.

    `output` is standard output unless it is given.
    """
    pending = PendingRequests()
    requests = McpRequests(app, client)
    server, serve = requests.server, serve_loop if client.is_channel else serve_dual_era_loop
    options = server.create_initialization_options(
        experimental_capabilities={channel.CAPABILITY: {}} if client.is_channel else None
    )
    session = client.requester.caller.session
    session.key = identity.process_key(client.pid)
    is_stopping = False
    try:
        async with stdio_server(cast(Any, pending.read(lines)), cast(Any, output)) as (read, write):
            pending.answers = write
            async with server.lifespan(server) as state:
                await serve(server, read, cast(Any, pending), lifespan_state=state, init_options=options)
    except asyncio.CancelledError:
        is_stopping = True
        raise
    finally:
        if requests.pushing:
            requests.pushing.cancel()
            await asyncio.wait((requests.pushing,))
        if not is_stopping:
            await release_agent(client.requester, session.key)


def standard_input() -> AsyncIterable[str]:
    """The lines of standard input."""
    return anyio.wrap_file(TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace"))


class PendingRequests:
    """Workaround: the requests that have no answer yet. The end of the input is delayed until all are answered.

    With `palaver mcp < requests`, standard input ends before the first answer. The SDK then drops all requests in
    progress (modelcontextprotocol/python-sdk#2678). This is also the stream to which the SDK writes the answers.
    """

    answers: Any

    def __init__(self) -> None:
        self._ids: set[Any] = set()
        self._changed = anyio.Event()

    async def read(self, lines: AsyncIterable[str]) -> AsyncIterator[str]:
        """Pass the lines on. The iterator ends when all requests in them are answered."""
        async for line in lines:
            line = replace_lone_surrogates(line.encode()).decode()
            with suppress(orjson.JSONDecodeError):  # the SDK reports invalid JSON
                match orjson.loads(line):
                    case {"method": "notifications/cancelled", "params": {"requestId": str() | int() as id}}:
                        self._ids.discard(id)
                    case {"method": _, "id": str() | int() as id}:
                        self._ids.add(id)
            yield line
        with anyio.move_on_after(DRAIN_SECONDS):
            while self._ids:
                await self._changed.wait()

    async def send(self, message: SessionMessage) -> None:
        answer = message.message
        await self.answers.send(message)
        if not hasattr(answer, "method"):
            self._ids.discard(getattr(answer, "id", None))
            self._changed.set()
            self._changed = anyio.Event()

    async def aclose(self) -> None:
        await self.answers.aclose()

    async def __aenter__(self) -> PendingRequests:
        await self.answers.__aenter__()
        return self

    async def __aexit__(self, *problem: Any) -> Any:
        return await self.answers.__aexit__(*problem)
