"""Workaround: answer pending requests after the end of standard input.

With `palaver mcp < requests`, standard input ends before the first answer. The SDK then drops all requests in progress
(modelcontextprotocol/python-sdk#2678). So the end of the input is delayed until all requests are answered.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import suppress
from typing import Any

import anyio
import orjson
from mcp.shared.message import SessionMessage

DRAIN_SECONDS = 10.0
"""How long answers can take after the end of the input."""


class PendingRequests:
    def __init__(self) -> None:
        self._ids: set[Any] = set()
        self._changed = anyio.Event()

    async def read(self, lines: AsyncIterable[str]) -> AsyncIterator[str]:
        """Pass the lines on. The iterator ends when all requests in them are answered."""
        async for line in lines:
            with suppress(orjson.JSONDecodeError):  # the SDK reports invalid JSON
                match orjson.loads(line):
                    case {"method": "notifications/cancelled", "params": {"requestId": str() | int() as id}}:
                        self._ids.discard(id)
                    case {"method": _, "id": str() | int() as id}:
                        self._ids.add(id)
            yield line
        with anyio.move_on_after(DRAIN_SECONDS):
            while self._ids:
                await self._changed.wait()

    def answered(self, message: SessionMessage) -> None:
        answer = message.message
        if not hasattr(answer, "method"):
            self._ids.discard(getattr(answer, "id", None))
            self._changed.set()
            self._changed = anyio.Event()


class AnswerStream:
    """The stream of answers. It tells `pending` about each of them. The request `answered` has its answer already."""

    def __init__(self, stream: Any, pending: PendingRequests, answered: str | int | None = None) -> None:
        self._stream, self._pending, self._answered = stream, pending, answered

    async def send(self, message: SessionMessage) -> None:
        answer = message.message
        if self._answered is not None and not hasattr(answer, "method") and answer.id == self._answered:
            self._answered = None
        else:
            await self._stream.send(message)
        self._pending.answered(message)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> AnswerStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *problem: Any) -> Any:
        return await self._stream.__aexit__(*problem)
