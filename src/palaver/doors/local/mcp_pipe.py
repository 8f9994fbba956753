"""`palaver mcp` beside a running server: a pipe between standard input and output and the server's socket.

It starts fast and needs little memory, because the server does the work. If the server stops, the pipe connects to the
next one; if none starts soon, it serves the client itself. The client does not notice, except that tool calls in
progress fail with an error that says so.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from time import monotonic, sleep

from palaver.doors.local import server_socket
from palaver.errors import PalaverError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from palaver.doors.local.server_socket import Connection

OPTIONS = ("home", "database_url", "agent", "tool_names", "toolsets", "auth")
RESTART_SECONDS = 5.0
"""How long a restarted server may take to be there again."""
POLL_SECONDS = 0.1
DRAIN_SECONDS = 15.0
"""How long answers can take after the end of the input."""
SERVER_ERROR = -32000
STOPPED = (
    "The palaver server was stopped during this call. Nobody knows whether the call was done: "
    "look first (msg_list, catch_up), then repeat it if it was not."
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
        elif word.startswith("--") and name in OPTIONS and (equals or rest):
            flags[name] = value if equals else rest.pop(0)
        else:
            return None
    return flags if commands == ["mcp"] else None


def run(flags: Mapping[str, str], serve_socket: Callable[[Mapping[str, str], socket.socket], None]) -> bool:
    """Serve the client through the running server until its input ends. False if there is no server for it.

    `serve_socket` serves a client in this process, if the server has stopped and no other one starts."""
    try:
        home = server_socket.home_of(flags)
    except PalaverError:
        return False  # the caller reports it
    connection = server_socket.connect(home, "mcp", flags)
    if connection is None:
        return False
    # A blocking read of standard input cannot be interrupted. All acknowledged data is on disk.
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(128 + number))

    def find() -> Connection | None:
        return server_socket.connect(home, "mcp", flags)

    def serve_alone(sock: socket.socket) -> None:
        os.umask(0o077)  # all written files are private to their owner
        serve_socket(flags, sock)

    pipe = Pipe(connection, find, serve_alone)
    while line := sys.stdin.buffer.readline():
        pipe.send(line if line.endswith(b"\n") else line + b"\n")
    pipe.finish()
    return True


class Pipe:
    """Passes lines on in both directions, and survives the end of its server."""

    def __init__(
        self,
        connection: Connection,
        find: Callable[[], Connection | None],
        serve_alone: Callable[[socket.socket], None],
    ) -> None:
        self._find, self._serve_alone = find, serve_alone
        self._sending = threading.Lock()
        self._opening: list[bytes] = []
        """The handshake of the client. Each new server gets it again."""
        self._pending: dict[str, bytes] = {}
        """Requests without an answer, by their id as JSON."""
        self._unsent: list[bytes] = []
        self._discard: set[str] = set()
        """Ids of requests whose answers the client already has."""
        self._has_ended = False
        self._lost_at = 0.0
        self._serving: threading.Thread | None = None
        """The thread that serves the client in this process, if there is one."""
        self._connection: Connection | None = None
        self._begin(connection)

    def send(self, line: bytes) -> None:
        """Pass a line of the client on."""
        message = parsed(line)
        method = message.get("method")
        with self._sending:
            if self._connection is None:
                self._connect()
            if method == "initialize":
                self._opening = [line]
            elif method == "notifications/initialized":
                self._opening.append(line)
            self._pass_on(line, message)

    def finish(self) -> None:
        """The input has ended: wait for the remaining answers."""
        with self._sending:
            self._has_ended = True
            if self._connection is None:
                return
            try:
                self._connection.end_input()
            except OSError:
                return
        self._reading.join(DRAIN_SECONDS)
        if self._serving is not None:
            self._serving.join(DRAIN_SECONDS)  # it closes the data; threads cannot start once this process ends

    def _pass_on(self, line: bytes, message: dict[str, Any]) -> None:
        id = request_id(message)
        if id is not None:
            self._pending[id] = line
        elif message.get("method") == "notifications/cancelled":
            self._pending.pop(json.dumps((message.get("params") or {}).get("requestId")), None)
        assert self._connection is not None
        try:
            self._connection.send(line)
        except OSError:  # the reading thread notices it too, and sends the line to the next server
            if id is not None:
                self._pending.pop(id, None)
            self._unsent.append(line)

    def _begin(self, connection: Connection) -> None:
        self._connection = connection
        self._reading = threading.Thread(target=self._read, args=(connection,), daemon=True)
        self._reading.start()

    # Reading

    def _read(self, connection: Connection) -> None:
        try:
            for line in connection.lines:
                self._answer(line)
        except (OSError, ValueError):
            pass
        self._lost(connection)

    def _answer(self, line: bytes) -> None:
        """Pass a line of the server on."""
        message = parsed(line)
        if end := message.get("palaver"):
            sys.stderr.write(f"palaver: {end['message']}\n")
            sys.stderr.flush()
            os._exit(end["exit"])
        if "id" in message and "method" not in message:
            id = json.dumps(message["id"])
            if id in self._discard:
                self._discard.discard(id)
                return
            self._pending.pop(id, None)
        write(line)

    def _lost(self, connection: Connection) -> None:
        """The server has gone. Tool calls fail, because it may have done them; other requests are sent again."""
        with self._sending:
            connection.close()
            self._connection, self._lost_at = None, monotonic()
            pending, self._pending = self._pending, {}
            again = []
            for id, line in pending.items():
                if parsed(line).get("method") == "tools/call" or self._has_ended:
                    write(failure(id, line))
                else:
                    again.append(line)
            unsent, self._unsent = self._unsent, []
            if self._has_ended or not (again or unsent):
                return  # the next request connects again
            self._connect(is_answer_wanted=any(line in self._opening for line in again))
            for line in [line for line in again + unsent if line not in self._opening]:
                self._pass_on(line, parsed(line))

    # Connecting again

    def _connect(self, *, is_answer_wanted: bool = False) -> None:
        """Connect to the next server, or serve the client in this process. Repeat the handshake."""
        until = self._lost_at + RESTART_SECONDS
        while (connection := self._find()) is None and monotonic() < until:
            sleep(POLL_SECONDS)
        self._begin(connection or self._alone())
        assert self._connection is not None
        for line in self._opening:
            message = parsed(line)
            if (id := request_id(message)) is not None and not is_answer_wanted:
                self._discard.add(id)
                try:
                    self._connection.send(line)
                except OSError:
                    return  # the reading thread notices it too
            else:
                self._pass_on(line, message)

    def _alone(self) -> Connection:
        own, other = socket.socketpair()
        self._serving = threading.Thread(target=self._serve_alone, args=(other,), daemon=True)
        self._serving.start()
        return server_socket.Connection(own)


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


def failure(id: str, line: bytes) -> bytes:
    """The answer to a request whose server has gone."""
    if parsed(line).get("method") == "tools/call":
        text = json.dumps({"error": "UNAVAILABLE", "message": STOPPED})
        outcome = {"result": {"content": [{"type": "text", "text": text}], "isError": True, "resultType": "complete"}}
    else:
        outcome = {"error": {"code": SERVER_ERROR, "message": STOPPED}}
    return json.dumps({"jsonrpc": "2.0", "id": json.loads(id), **outcome}).encode() + b"\n"


def write(line: bytes) -> None:
    """Write a line to standard output. Nothing is buffered."""
    try:
        while line:
            line = line[os.write(1, line) :]
    except BrokenPipeError:  # the client has gone
        os._exit(0)
