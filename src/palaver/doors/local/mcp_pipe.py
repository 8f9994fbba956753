"""`palaver mcp` beside a running server: a pipe between standard input and output and the server's socket.

It starts fast and needs little memory, because the server does the work. If the server stops, requests in progress fail
with an error that says so, and the next request connects to the next server. A channel connects without a request.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from time import monotonic, sleep

from palaver.doors.local import server_socket
from palaver.errors import PalaverError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from palaver.doors.local.server_socket import SocketConnection

OPTIONS = ("home", "database_url", "agent", "tool_names", "toolsets", "auth")
RESTART_SECONDS = 5.0
"""How long a restarted server may take to be there again. A channel then looks for it after such pauses."""
POLL_SECONDS = 0.1
DRAIN_SECONDS = 15.0
"""How long answers can take after the end of the input."""
SERVER_ERROR = -32000
STOPPED = (
    "The palaver server was stopped during this call. Nobody knows whether the call was done: "
    "look first (msg_list, catch_up), then repeat it if it was not."
)
AWAY = (
    "No palaver server answers on this machine, so nothing was done. Start it with 'palaver serve', then repeat this. "
    "If it was upgraded or has other settings now, restart this MCP client."
)


def flags_of(words: list[str]) -> dict[str, str] | None:
    """The options of `palaver [OPTIONS] mcp [OPTIONS]`; None if there is anything else."""
    flags: dict[str, str] = {}
    rest = list(words)
    commands = []
    while rest:
        word = rest.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("-"):
            commands.append(word)
        elif word == "--channel":
            flags["channel"] = "on"
        elif word.startswith("--") and name in OPTIONS and (equals or rest):
            flags[name] = value if equals else rest.pop(0)
        else:
            return None
    return flags if commands == ["mcp"] else None


def run(flags: Mapping[str, str]) -> bool:
    """Serve the client through the running server until its input ends. False if there is no server for it."""
    try:
        pipe = Pipe(server_socket.home_of(flags), flags)
    except PalaverError:
        return False  # the caller reports it
    if not pipe.connect():
        return False
    # A blocking read of standard input cannot be interrupted. All acknowledged data is on disk.
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))
    while line := sys.stdin.buffer.readline():
        pipe.send(line if line.endswith(b"\n") else line + b"\n")
    pipe.finish()
    return True


class Pipe:
    """Passes lines on in both directions, and survives the end of its server."""

    def __init__(self, home: str, flags: Mapping[str, str]) -> None:
        self._home, self._flags = home, flags
        self._sending = threading.Lock()
        self._handshake: dict[str, bytes] = {}
        """The opening lines of the client, by method. Each new server gets them again: they say who the client is."""
        self._pending: dict[str, dict[str, Any]] = {}
        """Requests without an answer, by their id as JSON."""
        self._lost_at = 0.0
        self._connection: SocketConnection | None = None

    def connect(self) -> bool:
        """Connect to a server, and repeat the handshake. A server that has just stopped may come back soon."""
        until = self._lost_at + RESTART_SECONDS
        while (connection := server_socket.connect(self._home, "mcp", self._flags)) is None:
            if not self._lost_at or monotonic() > until:
                return False
            sleep(POLL_SECONDS)
        try:
            for method, line in self._handshake.items():
                connection.send(line)
                if method == "initialize":
                    connection.lines.readline()  # the client has the answer of an earlier server
        except OSError:
            connection.close()
            return False
        self._connection = connection
        self._reading = threading.Thread(target=self._read, args=(connection,), daemon=True)
        self._reading.start()
        return True

    def _is_connected(self) -> bool:
        return self._connection is not None or self.connect()

    def send(self, line: bytes) -> None:
        """Pass a line of the client on."""
        message = parsed(line)
        method, id = message.get("method"), request_id(message)
        with self._sending:
            is_connected = self._is_connected()
            if method in ("initialize", "notifications/initialized"):
                self._handshake[method] = line
            if not is_connected:
                if id is not None:
                    write(failure(message, AWAY))
                return
            if id is not None:
                self._pending[id] = message
            elif method == "notifications/cancelled":
                self._pending.pop(json.dumps((message.get("params") or {}).get("requestId")), None)
            assert self._connection is not None
            with suppress(OSError):  # the reading thread notices it too, and answers what is pending
                self._connection.send(line)

    def finish(self) -> None:
        """The input has ended: wait for the remaining answers."""
        with self._sending, suppress(OSError):
            if self._connection is None:
                return
            self._connection.end_input()
        self._reading.join(DRAIN_SECONDS)

    def _read(self, connection: SocketConnection) -> None:
        with suppress(OSError, ValueError):
            for line in connection.lines:
                self._answer(line)
        with self._sending:  # the server has gone
            connection.close()
            self._connection, self._lost_at = None, monotonic()
            pending, self._pending = self._pending, {}
            for message in pending.values():
                write(failure(message, STOPPED))
        while "channel" in self._flags:  # messages arrive without a request
            with self._sending:
                if self._is_connected():
                    return
            sleep(RESTART_SECONDS)

    def _answer(self, line: bytes) -> None:
        """Pass a line of the server on."""
        message = parsed(line)
        if end := message.get("palaver"):
            sys.stderr.write(f"palaver: {end['message']}\n")
            sys.stderr.flush()
            os._exit(end["exit"])
        if "id" in message and "method" not in message:
            self._pending.pop(json.dumps(message["id"]), None)
        write(line)


def parsed(line: bytes) -> dict[str, Any]:
    """The message in a line. It is empty if the line is no JSON object: the server answers such lines."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def request_id(message: dict[str, Any]) -> str | None:
    """The id of a request as JSON; None for notifications and answers."""
    is_request = "method" in message and isinstance(message.get("id"), str | int)
    return json.dumps(message["id"]) if is_request else None


def failure(request: dict[str, Any], why: str) -> bytes:
    """The answer to a request that no server answers."""
    if request["method"] == "tools/call":
        text = json.dumps({"error": "UNAVAILABLE", "message": why})
        outcome = {"result": {"content": [{"type": "text", "text": text}], "isError": True, "resultType": "complete"}}
    else:
        outcome = {"error": {"code": SERVER_ERROR, "message": why}}
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}).encode() + b"\n"


def write(line: bytes) -> None:
    """Write a line to standard output. Nothing is buffered."""
    try:
        while line:
            line = line[os.write(1, line) :]
    except BrokenPipeError:  # the client has gone
        os._exit(0)
