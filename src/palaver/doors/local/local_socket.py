"""The Unix socket of the server, for `palaver mcp` and commands on the same data (`server_socket.py` is their side).

They get what they would get without a server: full access, as they can read the files, or the access of their token.
Their own settings count. A setting that only a process of their own can have makes the server refuse them, and they
open the data themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import socket
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from palaver import __version__
from palaver.app import App, LoginEnded
from palaver.doors.authentication import Requester, StdioClient, authenticate
from palaver.doors.cli.connection import LocalConnection, local_requester, perform
from palaver.doors.local import running_server
from palaver.doors.local.server_socket import NAME, ShortPath
from palaver.doors.mcp.lazy_app import LazyMcpRoute
from palaver.errors import PalaverError, Refused, Unauthorized
from palaver.model.projects import project_of
from palaver.operations import OPERATIONS, toolsets
from palaver.operations.operation import Operation
from palaver.settings import Settings, given_settings, parse_flags
from palaver.synced_files import make_folder

PER_CLIENT = ("agent", "toolsets", "tool_names", "output_schemas", "answers", "profile")
"""Settings that each MCP client has for itself."""
OF_SERVERS = ("home", "host", "port", "auth", "oauth", "allowed_hosts", "log_level", "log_format")
"""Settings that do not change what a client gets. (`auth` and `host` say whether it needs a token.)"""
FIRST_LINE_BYTES = 1024 * 1024
FIRST_LINE_SECONDS = 10.0
READ_BYTES = 65_536
ENDED = "This token is no longer valid: it was revoked or has expired."

log = logging.getLogger("palaver")


@dataclass(frozen=True, slots=True)
class LocalClient:
    """A process that connected: what its first line said."""

    wants: str
    pid: int
    folder: str
    workspace: str | None
    token: str | None
    settings: Settings
    """The settings it would have without a server."""
    is_channel: bool


class LocalSocket:
    def __init__(self, app: App, mcp: LazyMcpRoute) -> None:
        self._app, self._mcp = app, mcp
        self._serving: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Accept connections while the block runs. If several servers share a home, the latest one is found."""
        home = self._app.settings.data
        try:
            sock = _bind(self._app.settings)
        except OSError as problem:  # with PostgreSQL the home can be read-only
            log.warning("No socket can be made in %s (%s): commands open the data themselves.", home, problem.strerror)
            yield
            return
        own = [(path, path.stat()) for path in (home / NAME, home / running_server.NAME)]
        server = await asyncio.start_unix_server(self._accept, sock=sock, limit=FIRST_LINE_BYTES)
        try:
            yield
        finally:
            for path, made in own:
                with contextlib.suppress(OSError):
                    if os.path.samestat(made, path.stat()):
                        path.unlink()
            server.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with contextlib.suppress(ConnectionError):
                await self._serve(reader, writer)
        except Exception:
            log.exception("serving a process on %s failed", NAME)
        finally:
            self._serving.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(FIRST_LINE_SECONDS):
                first = await reader.readline()
            client = _read_client(self._app.settings, json.loads(first), _peer(writer))
            serve = await self._begin(client)
        except (PalaverError, ValueError, LookupError, TypeError, OSError) as problem:
            writer.write(_line({"refused": str(problem)}))
            await writer.drain()
            return
        writer.write(_line({"accepted": True}))
        await serve(reader, writer)

    async def _begin(
        self, client: LocalClient
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        """Authenticate a client before it is accepted, and return the function that serves it."""
        if client.wants == "commands":
            requester = await local_requester(self._app, client.token, client.workspace)
            return partial(self._serve_command, requester)
        if client.wants != "mcp":
            raise Refused("This server does not know what is wanted.")
        toolsets.select_tools(client.settings.toolsets)
        needs_token = client.settings.needs_token
        requester = await authenticate(self._app, client.token, "agent", needs_token=needs_token)
        own = {name: getattr(client.settings, name) for name in PER_CLIENT}
        settings = dataclasses.replace(self._app.settings, **own)
        project = await asyncio.to_thread(project_of, client.folder)
        return partial(self._serve_mcp, StdioClient(requester, settings, client.pid, project, client.is_channel))

    async def _serve_command(
        self, requester: Requester, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Perform one operation. It is cancelled if the client goes away."""
        request = json.loads(await anext(lines_of(reader), ""))
        performing = asyncio.create_task(_perform(requester, request))
        leaving = asyncio.create_task(reader.read(1))
        try:
            with self._app.access.present.track(*requester.keys):
                await asyncio.wait((performing, leaving), return_when=asyncio.FIRST_COMPLETED)
            if performing.done():
                writer.write(performing.result())
                await writer.drain()
        except LoginEnded:
            writer.write(_error(Unauthorized(ENDED)))
            await writer.drain()
        finally:
            performing.cancel()
            leaving.cancel()

    async def _serve_mcp(self, client: StdioClient, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._mcp.loaded()
        from palaver.doors.mcp.stdio import serve_lines

        try:
            with self._app.access.present.track(*client.requester.keys):
                await serve_lines(self._app, client, lines_of(reader), StreamOutput(writer))
        except LoginEnded:
            writer.write(_line({"palaver": {"exit": Unauthorized.exit_code, "message": ENDED}}))
            await writer.drain()


async def _perform(requester: Requester, request: dict[str, Any]) -> bytes:
    """Perform the operation of a command. The answer is a line for the client."""
    try:
        operation = _operations()[request["operation"]]
        connection = LocalConnection(requester)
        return _line({"answer": await perform(connection, operation, request["given"], request["thread"])})
    except PalaverError as problem:
        return _error(problem)
    except Exception:
        log.exception("a command failed")
        return _error(PalaverError("The server failed. Its log says why."))


@cache
def _operations() -> dict[str, Operation]:
    return {operation.name: operation for operation in OPERATIONS}


def _error(problem: PalaverError) -> bytes:
    return _line({"error": {"status": problem.status, "message": problem.message}})


def _read_client(server: Settings, said: dict[str, Any], peer: tuple[int, int] | None) -> LocalClient:
    """The client that a first line describes. The server refuses one that it cannot serve."""
    if said["version"] != __version__:
        raise Refused(f"This server is palaver {__version__}.")
    if peer is not None and (peer[0] != said["pid"] or peer[1] not in (0, os.geteuid())):
        raise Refused("The process is in another container, or has another user.")
    given = given_settings(parse_flags(said["flags"]), said["environ"], Path(said["folder"]))
    settings = Settings(**{name: value for name, (value, _) in given.items()})
    if settings.database_url != server.database_url:
        raise Refused("The process uses another database.")
    for name, (value, _) in given.items():
        if name not in (*PER_CLIENT, *OF_SERVERS) and value != getattr(server, name):
            raise Refused(f"The process has another value of {name}.")
    token = said["environ"].get("PALAVER_TOKEN") or None
    is_channel = "channel" in said["flags"]
    return LocalClient(said["wants"], said["pid"], said["folder"], said["workspace"], token, settings, is_channel)


def _peer(writer: asyncio.StreamWriter) -> tuple[int, int] | None:
    """The process id and the user id of the other side, where the system tells them."""
    if sys.platform != "linux":
        return None
    given = writer.get_extra_info("socket")
    with socket.socket(fileno=os.dup(given.fileno())) as sock:
        pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, uid


def _bind(settings: Settings) -> socket.socket:
    """Make the note and a listening socket in the home. They replace those of an earlier server."""
    home = settings.data
    make_folder(home)
    note, new = (f"{name}.{os.getpid()}" for name in (running_server.NAME, NAME))
    (home / note).write_text(json.dumps(running_server.note_of(settings)), "utf-8")
    (home / note).replace(home / running_server.NAME)
    sock = socket.socket(socket.AF_UNIX)
    try:
        (home / new).unlink(missing_ok=True)
        with ShortPath(str(home), new) as path:
            sock.bind(path)
        (home / new).chmod(0o600)
        sock.listen(128)
        (home / new).replace(home / NAME)
    except OSError:
        sock.close()
        raise
    return sock


async def lines_of(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    """The lines of a stream. A line can have any length."""
    parts: list[bytes] = []
    while data := await reader.read(READ_BYTES):
        first, *more = data.split(b"\n")
        parts.append(first)
        for part in more:
            yield b"".join(parts).decode("utf-8", "replace") + "\n"
            parts = [part]
    if rest := b"".join(parts):
        yield rest.decode("utf-8", "replace")


class StreamOutput:
    """Writes text to a stream."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str, /) -> None:
        self._writer.write(text.encode("utf-8"))

    async def flush(self) -> None:
        await self._writer.drain()


def _line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"
