"""Connect to the server that runs on the same data, through its Unix socket `server.sock` in PALAVER_HOME.

`palaver mcp` and the command line use it, so it imports only what it needs. Both sides write one JSON value per line.
The first line of a connection says what the client wants, with its folder, its options and its environment. The server
answers with `accepted` or `refused` (`local_socket.py`). Only the owner of the socket can connect, and the owner can
read all files of PALAVER_HOME as well.
"""

from __future__ import annotations

import json
import os
import socket
import sys

from palaver import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

NAME = "server.sock"
ANSWER_SECONDS = 3.0
"""How long a server may take to answer the first line. A stopped process accepts connections but does not answer."""
LONGEST_PATH = 100
"""Maximum bytes of a socket's path. Systems allow 104 or 108."""
VARIABLES = ("PALAVER_", "AGENTCHATBUS_", "CONVERSATION_DB", "ORIGIN_CONVERSATION_DB")
"""Beginnings of the environment variables that are settings."""


class SocketConnection:
    """A connection that the server has accepted."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.lines = sock.makefile("rb")

    def send(self, line: bytes) -> None:
        self._socket.sendall(line)

    def end_input(self) -> None:
        """Send no more. The server answers what it has read, and then closes the connection."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.lines.close()
        self._socket.close()


def home_of(flags: Mapping[str, Any]) -> str:
    """The directory with all data, as the settings would name it."""
    if given := flags.get("home") or os.environ.get("PALAVER_HOME"):
        return os.path.expanduser(str(given))
    from palaver.doors.hook import home

    return home()


def connect(
    home: str, wants: Literal["mcp", "commands"], flags: Mapping[str, Any], workspace: str | None = None
) -> SocketConnection | None:
    """A connection to the running server; None if there is none, or if it does not serve this client."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        with ShortPath(home) as path:
            sock.connect(path)
        sock.settimeout(ANSWER_SECONDS)
        connection = SocketConnection(sock)
        first = {
            "version": __version__,
            "wants": wants,
            "pid": os.getpid(),
            "folder": os.getcwd(),
            "workspace": workspace,
            "flags": {name: str(value) for name, value in flags.items() if value is not None},
            "environ": {name: value for name, value in os.environ.items() if name.startswith(VARIABLES)},
        }
        connection.send(json.dumps(first).encode() + b"\n")
        if "accepted" in json.loads(connection.lines.readline()):
            sock.settimeout(None)
            return connection
    except (OSError, ValueError):
        pass
    sock.close()
    return None


class ShortPath:
    """The path of the socket in a folder. On Linux a long one is replaced by a short one while the block runs."""

    def __init__(self, folder: str, name: str = NAME) -> None:
        self._folder, self._name = folder, name
        self._open: int | None = None

    def __enter__(self) -> str:
        path = os.path.join(self._folder, self._name)
        if len(os.fsencode(path)) <= LONGEST_PATH or sys.platform != "linux":
            return path
        self._open = os.open(self._folder, os.O_PATH | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._open}/{self._name}"

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            os.close(self._open)
