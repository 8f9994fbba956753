"""Event streams on plain sockets: many of them are cheap, and one can be left unread."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from typing import Any

from tests.helpers import PATIENCE, Server


@dataclass(frozen=True)
class Frame:
    id: int
    type: str
    data: Any
    at: float


class Stream:
    """A GET that never ends; its chunks are put together again."""

    ended_well = False

    def __init__(
        self, server: Server, path: str = "/events", after: int | None = None, buffer: int | None = None
    ) -> None:
        self._socket = socket.socket()
        if buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(("127.0.0.1", server.port))
        resume = f"Last-Event-ID: {after}\r\n" if after is not None else ""
        self._socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{resume}\r\n".encode())
        self._raw = self._rest = b""
        while b"\r\n\r\n" not in self._raw:
            got = self._socket.recv(4096)
            assert got, f"no stream: {self._raw!r}"
            self._raw += got
        head, _, self._raw = self._raw.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        assert b"transfer-encoding: chunked" in head.lower(), head
        while b": connected\n\n" not in self._rest:
            assert self._receive(), "the stream ended at once"
        self._rest = self._rest.partition(b": connected\n\n")[2]

    def _receive(self) -> bool:
        """Wait for more; False when the stream has ended."""
        before = len(self._rest)
        while len(self._rest) == before:
            size, found, after = self._raw.partition(b"\r\n")
            if found and len(after) >= int(size, 16) + 2:
                if int(size, 16) == 0:
                    self.ended_well = True
                    return False
                self._rest += after[: int(size, 16)]
                self._raw = after[int(size, 16) + 2 :]
                continue
            try:
                got = self._socket.recv(1 << 20)
            except ConnectionError:
                return False
            if not got:
                return False
            self._raw += got
        return True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def next(self) -> list[Frame] | None:
        """The frames that have arrived, at least one; None when the stream has ended."""
        while True:
            whole, end, rest = self._rest.rpartition(b"\n\n")
            if end:
                self._rest = rest
                frames = [frame for part in whole.split(b"\n\n") if (frame := _frame(part))]
                if frames:
                    return frames
            if not self._receive():
                return None

    def take(self, count: int) -> list[Frame]:
        taken: list[Frame] = []
        while len(taken) < count:
            frames = self.next()
            assert frames is not None, f"the stream ended after {len(taken)} of {count}"
            taken += frames
        return taken

    def until_end(self) -> list[Frame]:
        taken: list[Frame] = []
        while frames := self.next():
            taken += frames
        return taken


def _frame(part: bytes) -> Frame | None:
    fields = dict(line.split(b": ", 1) for line in part.split(b"\n") if line and not line.startswith(b":"))
    if not fields:
        return None
    assert list(fields) == [b"id", b"event", b"data"], part
    return Frame(int(fields[b"id"]), fields[b"event"].decode(), json.loads(fields[b"data"]), time.perf_counter())
