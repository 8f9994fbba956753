"""Bodies of requests: JSON objects and forms with files, each up to a maximum size."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
from starlette.datastructures import UploadFile
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from palaver.doors.authentication import Requester
from palaver.errors import Forbidden, Invalid, PalaverError, Refused, TooLarge


async def read_body(request: Request, max_body: int, advice: str = "") -> bytes:
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > max_body:
                raise TooLarge(f"The body is larger than {max_body:,} bytes.{advice}")
            chunks.append(chunk)
    except ClientDisconnect:
        raise Refused("The connection was closed before the body arrived.") from None
    return b"".join(chunks)


async def body_of(request: Request, max_body: int) -> dict[str, Any]:
    """The JSON object in the body; an empty body is an empty object."""
    if (encoding := request.headers.get("content-encoding", "identity").lower()) != "identity":
        raise Refused(f"Content-Encoding {encoding[:20]} is not supported. Send the body uncompressed.")
    data = await read_body(request, max_body, " Send less at once.")
    if not data:
        return {}
    try:
        given = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            # Python also accepts a lone surrogate, so that the check of the field can name it.
            given = json.loads(data, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise Refused("The body is not valid JSON. Send one object, in UTF-8.") from None
    if not isinstance(given, dict):
        raise Invalid("The body must be a JSON object.")
    return given


def _refuse_constant(name: str) -> None:
    """NaN and Infinity are not JSON."""
    raise ValueError(name)


@asynccontextmanager
async def files_in(
    request: Request, max_files: int, max_body: int, too_large: TooLarge, wrong_form: Refused
) -> AsyncIterator[list[UploadFile]]:
    """The parts of a form that are named 'file', from a caller who may write."""
    requester: Requester = request.scope["palaver.requester"]
    if "write" not in requester.caller.scopes:
        raise Forbidden("This token has no 'write' scope.")
    received = 0

    async def receive() -> Message:
        nonlocal received
        message = await request.receive()
        received += len(message.get("body", b""))
        if received > max_body:
            raise too_large
        return message

    try:
        form = await Request(request.scope, receive).form(max_files=max_files, max_fields=10)
    except PalaverError:
        raise
    except Exception:
        raise wrong_form from None
    try:
        files = [part for part in form.getlist("file") if isinstance(part, UploadFile)]
        if not files:
            raise wrong_form
        yield files
    finally:
        await form.close()
