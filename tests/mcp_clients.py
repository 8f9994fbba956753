"""Clients for every way into the MCP door, with one face: `ask`, `answer`, `call`, `refused`, `tools`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import anyio.from_thread
import httpx
import mcp_types as types
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from tests.helpers import EVERYTHING, PATIENCE, Answer, Mcp, Server, environment, messages_of, palaver_command
from websockets.sync.client import ClientConnection, connect

DOORS = ["http-2025", "http-2026", "websocket", "sse", "stdio", "stdio-alone"]
"""`stdio` goes through the running server, `stdio-alone` opens the data itself."""


class Websocket(Mcp):
    """A client of `/mcp/ws`: one JSON-RPC message a frame."""

    def __init__(self, connection: ClientConnection) -> None:
        self._socket, self._ids = connection, 0
        about = {"name": "tests", "version": "1"}
        self.greeting = self.ask("initialize", protocolVersion=self.version, capabilities={}, clientInfo=about)
        self.say({"method": "notifications/initialized"})

    def say(self, message: dict[str, Any]) -> None:
        self._socket.send(json.dumps({"jsonrpc": "2.0", **message}))

    def exchange(self, method: str, **params: Any) -> dict[str, Any]:
        self._ids += 1
        self.say({"id": self._ids, "method": method, "params": params})
        while True:
            heard = json.loads(self._socket.recv(PATIENCE))
            if heard.get("id") == self._ids:
                return dict(heard)


class Stateless(Mcp):
    """A client of `/mcp` as of 2026-07-28: every request stands alone and says which program sends it."""

    able: ClassVar[dict[str, Any]] = {}

    def __init__(self, client: httpx.Client, program: str = "tests", path: str = "/mcp", token: str = "") -> None:
        self._client, self._path, self._ids, self._program = client, path, 0, program
        self.headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        self.headers |= {"mcp-protocol-version": "2026-07-28"}
        if token:
            self.headers["authorization"] = f"Bearer {token}"

    def exchange(self, method: str, **params: Any) -> dict[str, Any]:
        self._ids += 1
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {
                "name": self._program,
                "title": self._program.title(),
                "version": "1",
            },
            "io.modelcontextprotocol/clientCapabilities": self.able,
        }
        asked = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": {**params, "_meta": meta}}
        about = {"mcp-method": method, **({"mcp-name": params["name"]} if "name" in params else {})}
        response = self._client.post(self._path, json=asked, headers={**self.headers, **about})
        assert response.status_code in (200, 400), (response.status_code, response.text)
        return next(answer for answer in messages_of(response) if answer.get("id") in (self._ids, None))


class Sdk(Mcp):
    """The MCP SDK's own client, run in another thread."""

    def __init__(self, client: Client, portal: anyio.from_thread.BlockingPortal) -> None:
        self._sdk, self._portal = client, portal

    def answer(self, tool: str, arguments: dict[str, Any] | None = None, /, **more: Any) -> Answer:
        result = self._portal.call(self._sdk.call_tool, tool, {**(arguments or {}), **more})
        (item,) = result.content
        assert isinstance(item, types.TextContent)
        value = json.loads(item.text)
        assert result.structured_content == (None if result.is_error else value)
        return Answer(value, bool(result.is_error), _plain(result))

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        asking = {
            "tools/list": self._sdk.list_tools,
            "prompts/list": self._sdk.list_prompts,
            "resources/list": self._sdk.list_resources,
            "resources/templates/list": self._sdk.list_resource_templates,
        }
        if method == "resources/read":
            return _plain(self._portal.call(self._sdk.read_resource, params["uri"]))
        return _plain(self._portal.call(asking[method]))


def _plain(result: Any) -> dict[str, Any]:
    return dict(result.model_dump(mode="json", by_alias=True, exclude_none=True))


def stdio_server(env: dict[str, str], cwd: Path | None = None, *options: str) -> StdioServerParameters:
    """Parameters with which the SDK's client starts `palaver mcp`."""
    command, *args = palaver_command("mcp", *options)
    return StdioServerParameters(command=command, args=args, env=env, cwd=cwd)


@contextmanager
def through(door: str, server: Server, api: httpx.Client, query: str = "") -> Iterator[Mcp]:
    """A fresh client that came in by this door. Unless the query says otherwise it sees all tools and full answers."""
    query = query or EVERYTHING.removeprefix("/mcp")
    if door == "websocket":
        with connect(f"ws://127.0.0.1:{server.port}/mcp/ws{query}", max_size=None) as connection:
            yield Websocket(connection)
        return
    if door == "http-2025":
        client = Client(f"{server.url}/mcp{query}", mode="legacy")
    elif door == "http-2026":
        client = Client(f"{server.url}/mcp{query}", mode="2026-07-28")
    elif door == "sse":
        client = Client(sse_client(f"{server.url}/sse{query}"), mode="legacy")
    else:
        # On the same data as the running server, at the same time.
        env = {"PALAVER_TOOLSETS": "all", "PALAVER_ANSWERS": "full", "PALAVER_OUTPUT_SCHEMAS": "on"}
        env |= {k: v for k, v in server.env.items() if k.startswith("PALAVER_")}
        options = ["--alone"] if door == "stdio-alone" else []
        client = Client(stdio_server(environment(server.home, **env), server.home, *options), mode="legacy")
    with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(client):
        yield Sdk(client, portal)
