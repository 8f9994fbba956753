"""What was asked on standard input and is not answered yet.

Who pipes a few lines into `palaver mcp` closes standard input before the first answer is made. The SDK takes the end of
the input for the end of everything and drops what it is working on; so the end is held back until it is done.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import anyio
import orjson
from mcp.shared.message import SessionMessage

PATIENCE = 10.0
"""Seconds after the end of the input in which answers may still come."""


class Asked:
    def __init__(self) -> None:
        self._open: set[Any] = set()
        self._changed = anyio.Event()

    async def held_back(self, lines: AsyncIterable[str]) -> AsyncIterator[str]:
        """The lines; their end comes when all of them are answered."""
        async for line in lines:
            self._hear(line)
            yield line
        with anyio.move_on_after(PATIENCE):
            while self._open:
                await self._changed.wait()

    def _hear(self, line: str) -> None:
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            return
        match message:
            case {"method": "notifications/cancelled", "params": {"requestId": str() | int() as id}}:
                self._open.discard(id)
            case {"method": _, "id": str() | int() as id}:
                self._open.add(id)

    def answered(self, message: SessionMessage) -> None:
        said = message.message
        if not hasattr(said, "method"):
            self._open.discard(getattr(said, "id", None))
            self._changed.set()
            self._changed = anyio.Event()


class Noted:
    """The stream of answers; each is noted when it has been taken to be written."""

    def __init__(self, stream: Any, asked: Asked) -> None:
        self._stream, self._asked = stream, asked

    async def send(self, message: SessionMessage) -> None:
        await self._stream.send(message)
        self._asked.answered(message)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Noted:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *problem: Any) -> Any:
        return await self._stream.__aexit__(*problem)
