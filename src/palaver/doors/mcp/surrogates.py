"""Workaround: accept JSON with lone surrogates, from clients that cut text in the middle of an emoji.

The SDK's JSON parser refuses the whole message (pydantic/jiter#120). Here a NUL character replaces the lone surrogate.
Queries ignore NUL characters, and texts to be stored are refused with the name of their field.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator

from starlette.types import Message, Receive

_PAIR = rb"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = rb"(u[dD][89a-fA-F][0-9a-fA-F]{2})"
_ESCAPE = re.compile(rb"\\(?:" + _PAIR + rb"|" + _HALF + rb"|.)", re.DOTALL)


def replace_lone_surrogates(raw: bytes) -> bytes:
    if b"\\u" not in raw:
        return raw
    return _ESCAPE.sub(lambda found: rb"\u0000" if found[1] else found[0], raw)


def fix_body(receive: Receive, max_bytes: int) -> Receive:
    """Fix the body of a request. Its parts are joined first, as an escape can be split between two of them."""

    async def receive_fixed() -> Message:
        message = await receive()
        if message["type"] != "http.request":
            return message
        body: bytes = message.get("body", b"")
        while message.get("more_body", False) and len(body) <= max_bytes:
            message = await receive()
            if message["type"] != "http.request":
                return message
            body += message.get("body", b"")
        return {
            "type": "http.request",
            "body": replace_lone_surrogates(body),
            "more_body": message.get("more_body", False),
        }

    return receive_fixed


class FixedLines:
    """The lines of standard input, fixed."""

    def __init__(self, lines: AsyncIterable[str]) -> None:
        self._lines = lines

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._lines:
            yield replace_lone_surrogates(line.encode()).decode()
