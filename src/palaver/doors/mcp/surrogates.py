"""Workaround: accept JSON with lone surrogates, from clients that cut text in the middle of an emoji.

The SDK's JSON parser refuses the whole message (pydantic/jiter#120). Here a NUL character replaces the lone surrogate.
Queries ignore NUL characters, and texts to be stored are refused with the name of their field.
"""

from __future__ import annotations

import re

from starlette.types import Message, Receive

_PAIR = rb"u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = rb"(u[dD][89a-fA-F][0-9a-fA-F]{2})"
_ESCAPE = re.compile(rb"\\(?:" + _PAIR + rb"|" + _HALF + rb"|.)", re.DOTALL)


def replace_lone_surrogates(raw: bytes) -> bytes:
    if b"\\u" not in raw:
        return raw
    return _ESCAPE.sub(lambda found: rb"\u0000" if found[1] else found[0], raw)


async def fixed_body(receive: Receive, max_bytes: int) -> tuple[bytes, Receive]:
    """The body of a request, fixed, and a `receive` that returns it first. Its parts are joined, as an escape can be
    split between two of them. After `max_bytes` the rest stays where it is: the SDK refuses the request."""
    body, message = b"", await receive()
    while message["type"] == "http.request":
        body += message.get("body", b"")
        if not message.get("more_body", False) or len(body) > max_bytes:
            message = {**message, "body": replace_lone_surrogates(body)}
            break
        message = await receive()
    held: list[Message] = [message]

    async def receive_fixed() -> Message:
        return held.pop() if held else await receive()

    return message.get("body", b""), receive_fixed
