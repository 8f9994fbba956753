"""Two hundred who write at once: each post is on disk before it is answered, none waits long, none is lost."""

from __future__ import annotations

import asyncio
import json
import time

import httpx
import pytest
from tests.conftest import Engine
from tests.faults.conftest import Start
from tests.faults.press import IS_LONG, Client, must_be_whole, percentile, tell
from tests.helpers import PATIENCE, Mcp, Server

WRITERS, SECONDS = 200, 15.0 if IS_LONG else 1.5


async def write_on(server: Server, room: str, number: int, until: float, kept: list[str], took: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    body = json.dumps({"author": f"w{number}", "content": f"one of two hundred, number {number}"}).encode()
    request = (
        f"POST /api/threads/{room}/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        answer = await reader.readexactly(length)
        took.append(time.perf_counter() - began)
        assert head.startswith(b"HTTP/1.1 201"), head
        kept.append(json.loads(answer)["id"])
    writer.close()


@pytest.mark.thorough
def test_two_hundred_write_at_once_and_none_waits_long(start: Start, engine: Engine):
    with start() as server:
        with httpx.Client(base_url=server.url, timeout=PATIENCE) as door:
            Mcp(door)  # the last to open: what is measured is a server at work, not one that starts
        client = Client(server)
        rooms = [client.thread() for _ in range(10)]
        kept: list[str] = []
        took: list[float] = []

        async def everybody() -> float:
            began = time.perf_counter()
            until = began + SECONDS
            await asyncio.gather(
                *(write_on(server, rooms[n % len(rooms)], n, until, kept, took) for n in range(WRITERS))
            )
            return time.perf_counter() - began

        seconds = asyncio.run(everybody())
        rate, p99 = len(kept) / seconds, percentile(took, 99)
        tell(
            f"{WRITERS} writers: {rate:.0f} durable posts/s, p50 {percentile(took, 50) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms"
        )
        there = {message["id"] for room in rooms for message in client.messages(room)}
        assert set(kept) == there
        assert len(kept) == len(set(kept))
        must_be_whole(server)
        if IS_LONG and engine.name == "sqlite":
            assert rate >= 800
            assert p99 <= 0.4
        assert rate > 50
