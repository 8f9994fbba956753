"""MCP on stdio: one JSON-RPC message per line. The caller is authenticated once.

The lines come from the standard input of this process, or from a `palaver mcp` process that is connected to the server.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterable, AsyncIterator
from io import TextIOWrapper
from typing import Any, Protocol, cast

import anyio
from mcp.server.stdio import stdio_server

from palaver.app import App
from palaver.doors.authentication import Requester
from palaver.doors.mcp.connection import release_agent
from palaver.doors.mcp.requests import McpRequests
from palaver.doors.mcp.stdio_pending import AnswerStream, PendingRequests
from palaver.doors.mcp.surrogates import FixedLines
from palaver.operations import identity
from palaver.settings import Settings


class Output(Protocol):
    async def write(self, text: str, /) -> Any: ...

    async def flush(self) -> None: ...


async def serve_lines(
    app: App,
    requester: Requester,
    settings: Settings,
    *,
    pid: int,
    project: str,
    lines: AsyncIterable[str],
    output: Output | None = None,
    answered: str | int | None = None,
) -> None:
    """Serve one client until its lines end. Its process id tells later whether it still runs.

    `output` is standard output unless it is given. The request with the id `answered` has its answer already. If the
    server stops, the client keeps its agent.
    """
    pending = PendingRequests()
    server = McpRequests(app, requester, project, settings).server
    session = requester.caller.session
    session.key = identity.process_key(pid)
    is_stopping = False
    try:
        async with stdio_server(cast(Any, pending.read(FixedLines(lines))), cast(Any, output)) as (read, write):
            answers = cast(Any, AnswerStream(write, pending, answered))
            await server.run(read, answers, server.create_initialization_options())
    except asyncio.CancelledError:
        is_stopping = True
        raise
    finally:
        if not is_stopping:
            await release_agent(requester, session.key)


async def standard_input(first: bytes) -> AsyncIterator[str]:
    """The lines of standard input. The first one has been read already."""
    if first:
        yield first.decode("utf-8", "replace")
    async for line in anyio.wrap_file(TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace")):
        yield line
