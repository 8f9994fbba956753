"""A recording TCP proxy between a client and palaver: bytes pass unchanged, HTTP requests and answers are kept."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httptools


@dataclass
class Exchange:
    """One HTTP request and as much of its answer as has come."""

    method: str = ""
    target: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    status: int = 0
    answer_headers: dict[str, str] = field(default_factory=dict)
    answer: bytes = b""

    @property
    def message(self) -> dict[str, Any]:
        """The JSON-RPC message that was sent, or {}."""
        with contextlib.suppress(ValueError):
            return dict(json.loads(self.body))
        return {}

    @property
    def tool(self) -> str:
        """The tool that is called, or ""."""
        if self.message.get("method") != "tools/call":
            return ""
        return str(self.message["params"].get("name", "")).replace(".", "_")


class _RequestReader:
    """Callbacks of httptools for what the client sends. Unfinished requests are not listed."""

    def __init__(self, tap: Tap, pending: list[Exchange]) -> None:
        self.tap, self.pending, self.now = tap, pending, Exchange()

    def on_message_begin(self) -> None:
        self.now = Exchange()

    def on_url(self, url: bytes) -> None:
        self.now.target += url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.now.headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self.now.body += body

    def on_message_complete(self) -> None:
        self.now.method = self.parser.get_method().decode()
        self.pending.append(self.now)
        self.tap.exchanges.append(self.now)

    parser: httptools.HttpRequestParser


class _AnswerReader:
    """Callbacks of httptools for what palaver answers: always to the oldest request of the connection."""

    def __init__(self, pending: list[Exchange]) -> None:
        self.pending, self.now = pending, Exchange()

    def on_message_begin(self) -> None:
        self.now = self.pending.pop(0) if self.pending else Exchange()

    def on_header(self, name: bytes, value: bytes) -> None:
        self.now.answer_headers[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        self.now.status = self.parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.now.answer += body

    parser: httptools.HttpResponseParser


@dataclass
class Tap:
    """What passed, in the order in which requests were complete."""

    port: int
    exchanges: list[Exchange] = field(default_factory=list)

    def calls_of(self, tool: str) -> int:
        """How many calls of this tool have passed so far."""
        return sum(exchange.tool == tool for exchange in list(self.exchanges))


@contextmanager
def listen_between(server_port: int) -> Iterator[Tap]:
    """A tap in front of the server on this port. Its own port is `tap.port`."""
    listener = socket.create_server(("127.0.0.1", 0))
    tap = Tap(listener.getsockname()[1])

    def accept() -> None:
        with contextlib.suppress(OSError):  # closed when the block is left
            while True:
                client, _ = listener.accept()
                threading.Thread(target=_join, args=(tap, client, server_port), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield tap
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _join(tap: Tap, client: socket.socket, server_port: int) -> None:
    """Carry bytes both ways until either side ends. Without a server the client's connection is closed at once."""
    try:
        server = socket.create_connection(("127.0.0.1", server_port))
    except OSError:
        client.close()
        return
    pending: list[Exchange] = []
    asked, answered = _RequestReader(tap, pending), _AnswerReader(pending)
    asked.parser, answered.parser = httptools.HttpRequestParser(asked), httptools.HttpResponseParser(answered)
    back = threading.Thread(target=_carry, args=(server, client, answered.parser), daemon=True)
    back.start()
    _carry(client, server, asked.parser)
    back.join()
    client.close()
    server.close()


def _carry(source: socket.socket, target: socket.socket, parser: Any) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            with contextlib.suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
                parser.feed_data(data)
            target.sendall(data)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
