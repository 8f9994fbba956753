"""How long we wait for a client: for its headers, for its body, and for it to take what we send.

A slow or silent client is cut off; it must not hold a place for ever. How much time a body has depends on how much of
it has come: a large upload over a slow line is welcome, a byte every now and then is not.
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
LOOK_SECONDS = 2.0

HEAD_BYTES = 128 * 1024
"""Most bytes of a request's first line and headers together."""
HEADERS = 200
"""Most headers of a request."""
END_OF_HEAD = b"\r\n\r\n"

_NOT_ASCII = re.compile(rb"[\x80-\xff]")


class PatientHttp(HttpToolsProtocol):
    """HTTP with an end to our patience."""

    _look: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _waits_for: Literal["headers", "body"] | None = None
    _waited = 0.0
    _received = 0

    _head = 0
    """Bytes of the first line and headers that have come so far."""
    _head_end = b""
    """The last bytes of them: the end of the head may come in two pieces."""
    _is_head_too_large = False

    _is_between = True
    """No request is on its way: what comes next begins with its first line."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for("headers")

    def data_received(self, data: bytes) -> None:
        """Some clients (curl is one) write what they look for into the address as it is: café, not caf%C3%A9."""
        if self._is_between and not (line := data.partition(b"\n")[0]).isascii():
            data = _NOT_ASCII.sub(lambda found: b"%%%02X" % ord(found[0]), line) + data[len(line) :]
        if self._waits_for == "headers" and self._grows_too_large(data):
            self._is_head_too_large = True
            self.send_400_response("")
            return
        super().data_received(data)

    def _grows_too_large(self, data: bytes) -> bool:
        """The parser joins the pieces of a header again at each piece, so an endless one must not get to it."""
        end = (self._head_end + data).find(END_OF_HEAD)
        self._head += len(data) if end < 0 else end
        self._head_end = (self._head_end + data[-3:])[-3:]
        return self._head > HEAD_BYTES

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= HEADERS:
            self._is_head_too_large = True
            raise ValueError("too many headers")  # the parser stops, and the request is refused
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
        """From now on it is looked at now and then. A busy connection has one timer, not some for each request."""
        self._waits_for, self._waited, self._received = what, 0.0, 0
        self._head, self._head_end = 0, b""
        if self._look is None:
            self._look = self.loop.call_later(LOOK_SECONDS, self._look_at_it)

    def _look_at_it(self) -> None:
        self._look = None
        if self._waits_for is None or self.transport.is_closing():
            return
        if not self.flow.read_paused:  # or it is we who do not take it now
            self._waited += LOOK_SECONDS
        if self._waits_for == "headers":
            is_late = self._waited > HEADER_SECONDS
        else:
            is_late = self._received < (self._waited - BODY_GRACE_SECONDS) * BODY_BYTES_A_SECOND
        if is_late:
            self.transport.close()
        else:
            self._look = self.loop.call_later(LOOK_SECONDS, self._look_at_it)

    def handle_websocket_upgrade(self) -> None:
        self._waits_for = None
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, or far too long, is refused in the same form as everything else."""
        status, body = "400 Bad Request", b'{"detail":"This is not a proper HTTP request, or its address is too long."}'
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
        self._forget_stuck()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._waits_for = None
        if self._look is not None:
            self._look.cancel()
            self._look = None
        self._forget_stuck()
        super().connection_lost(exc)

    def _forget_stuck(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
