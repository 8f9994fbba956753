"""JSON with half an emoji in it, as clients send it that cut text between two surrogates.

The MCP SDK's parser refuses all of such a message. A NUL in place of the half says the same to our own checks, which
ignore it in a query and refuse it by name in what is to be stored.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator

from starlette.types import Message, Receive

_PAIR = rb"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = rb"(u[dD][89a-fA-F][0-9a-fA-F]{2})"
_ESCAPE = re.compile(rb"\\(?:" + _PAIR + rb"|" + _HALF + rb"|.)", re.DOTALL)


def mended(raw: bytes) -> bytes:
    if b"\\u" not in raw:
        return raw
    return _ESCAPE.sub(lambda found: rb"\u0000" if found[1] else found[0], raw)


def mending(receive: Receive, most: int) -> Receive:
    """The request's body, mended. A cut between its pieces may go through an escape, so they are put together first."""

    async def receiving() -> Message:
        message = await receive()
        if message["type"] != "http.request":
            return message
        body: bytes = message.get("body", b"")
        while message.get("more_body", False) and len(body) <= most:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
        return {"type": "http.request", "body": mended(body), "more_body": message.get("more_body", False)}

    return receiving


class MendedLines:
    """Lines of standard input, mended."""

    def __init__(self, lines: AsyncIterable[str]) -> None:
        self._lines = lines

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._lines:
            yield mended(line.encode()).decode()
