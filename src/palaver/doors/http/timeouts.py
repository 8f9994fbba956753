"""Timeouts and limits for HTTP connections: reading headers, reading the body, and writing.

uvicorn has no such timeouts (Kludex/uvicorn#157), so a slow or silent client could keep a connection forever. The time
limit of a body depends on the received bytes: a large upload over a slow line is fine, a byte now and then is not.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Literal

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 15.0
BODY_GRACE_SECONDS = 15.0
BODY_BYTES_A_SECOND = 2_000
STUCK_SECONDS = 30.0
"""A client that reads nothing for this long is disconnected."""
CHECK_SECONDS = 2.0
"""How often a connection is checked."""

MAX_HEAD_BYTES = 128 * 1024
"""Maximum size of a request's first line and headers together."""
MAX_HEADERS = 200
"""Maximum number of headers of a request."""
END_OF_HEAD = b"\r\n\r\n"

_NOT_ASCII = re.compile(rb"[\x80-\xff]")


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with timeouts and limits."""

    _check: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _waits_for: Literal["headers", "body"] | None = None
    _waited = 0.0
    _received = 0

    _head = 0
    """Received bytes of the first line and headers."""
    _head_end = b""
    """Their last bytes, because the end of the headers can be split between two reads."""
    _is_head_too_large = False

    _is_between = True
    """No request is being read: the next bytes are a first line."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for("headers")

    def data_received(self, data: bytes) -> None:
        # Percent-encode the first line: some clients, such as curl, send café instead of caf%C3%A9.
        if self._is_between and not (line := data.partition(b"\n")[0]).isascii():
            data = _NOT_ASCII.sub(lambda found: b"%%%02X" % ord(found[0]), line) + data[len(line) :]
        if self._waits_for == "headers":
            # The parser must not see endless headers: it copies them at each read.
            end = (self._head_end + data).find(END_OF_HEAD)
            self._head += len(data) if end < 0 else end
            self._head_end = (self._head_end + data[-3:])[-3:]
            if self._head > MAX_HEAD_BYTES:
                self._is_head_too_large = True
                self.send_400_response("")
                return
        super().data_received(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MAX_HEADERS:
            self._is_head_too_large = True
            raise ValueError("too many headers")  # stops the parser; the request is refused
        super().on_header(name, value)

    def on_message_begin(self) -> None:
        self._is_between = False
        super().on_message_begin()
        head, end = self._head, self._head_end
        self._wait_for("headers")
        self._head, self._head_end = head, end

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._wait_for("body")

    def on_body(self, body: bytes) -> None:
        self._received += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._waits_for, self._is_between = None, True
        super().on_message_complete()

    def _wait_for(self, what: Literal["headers", "body"]) -> None:
        """Start to check this connection. A busy connection has one timer, not one for each request."""
        self._waits_for, self._waited, self._received = what, 0.0, 0
        self._head, self._head_end = 0, b""
        if self._check is None:
            self._check = self.loop.call_later(CHECK_SECONDS, self._check_now)

    def _check_now(self) -> None:
        self._check = None
        if self._waits_for is None or self.transport.is_closing():
            return
        if not self.flow.read_paused:  # else the server itself has paused reading
            self._waited += CHECK_SECONDS
        if self._waits_for == "headers":
            is_late = self._waited > HEADER_SECONDS
        else:
            is_late = self._received < (self._waited - BODY_GRACE_SECONDS) * BODY_BYTES_A_SECOND
        if is_late:
            self.transport.close()
        else:
            self._check = self.loop.call_later(CHECK_SECONDS, self._check_now)

    def handle_websocket_upgrade(self) -> None:
        self._waits_for = None
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid or too large requests with a JSON body, like all other errors."""
        status, body = "400 Bad Request", b'{"detail":"This is not a valid HTTP request, or its URL is too long."}'
        if self._is_head_too_large:
            status = "431 Request Header Fields Too Large"
            body = b'{"detail":"The headers are too large: at most 200 of them and 128 KiB together."}'
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        self.transport.write(head.encode() + b"\r\nconnection: close\r\n\r\n" + body)
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stuck is None:
            self._stuck = self.loop.call_later(STUCK_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._cancel_stuck_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._waits_for = None
        if self._check is not None:
            self._check.cancel()
            self._check = None
        self._cancel_stuck_timer()
        super().connection_lost(exc)

    def _cancel_stuck_timer(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
