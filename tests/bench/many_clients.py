"""Many clients in one process, on plain sockets: they post, wait, search and listen, and go on after a failure."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlencode
from uuid import uuid4

from measure import COMMON, percentile

AGAIN = 0.1
"""Seconds before a client that failed tries again."""
TIMEOUT = 10.0
FAILURES = (OSError, EOFError, TimeoutError, ValueError, asyncio.IncompleteReadError)


@dataclass
class Figures:
    """What the clients saw."""

    latencies: dict[str, list[float]] = field(default_factory=dict)
    acknowledged: dict[str, str] = field(default_factory=dict)
    """The texts of the messages that were acknowledged, by id."""
    failures: int = 0
    gaps_after_failure: dict[str, list[float]] = field(default_factory=dict)
    """How many seconds clients were without an answer when their first try failed, by what they wanted. For posts and
    searches from the first try on; for waiting and listening from the failure on, because they take their time."""
    heard: list[list[int]] = field(default_factory=list)
    """The ids of the events that each listener got."""

    def p95(self, what: str) -> float:
        return percentile(self.latencies.get(what, [0.0]), 95)

    def longest_gap(self) -> str:
        """The longest time of each kind of client."""
        longest = [f"{what} {max(some):.1f}" for what, some in sorted(self.gaps_after_failure.items())]
        return ", ".join(longest) + " s" if longest else "no try failed"

    @property
    def gaps(self) -> int:
        """Events that a listener missed between its first and its last one."""
        return sum(ids[-1] - ids[0] + 1 - len(set(ids)) for ids in self.heard if ids)

    @property
    def doubles(self) -> int:
        return sum(len(ids) - len(set(ids)) for ids in self.heard)


class Connection:
    """A kept-alive HTTP connection to the proxy, opened when it is needed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self._ask(method, path, body)
        except BaseException:
            self.close()
            raise

    async def _ask(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        reader = await self.send(method, path, body)
        status, headers = await read_head(reader)
        if "chunked" in headers.get("transfer-encoding", ""):
            parts = []
            while size := int(await reader.readline(), 16):
                parts.append(await reader.readexactly(size))
                await reader.readline()
            await reader.readline()
            return status, b"".join(parts)
        content = await reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection") == "close":
            self.close()
        return status, content

    async def send(self, method: str, path: str, body: object = None, headers: str = "") -> asyncio.StreamReader:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        content = json.dumps(body).encode() if body is not None else b""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{headers}Content-Length: {len(content)}\r\n"
        )
        self._writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + content)
        await self._writer.drain()
        return self._reader

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:] if line)
    return int(lines[0].split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


class Clients:
    """A quarter of the clients post, a quarter wait, a quarter search, and a quarter listen."""

    def __init__(self, port: int, count: int, threads: list[str], pause: float) -> None:
        """`pause`: mean seconds between two requests of a client."""
        self._port, self._count, self._threads, self._mean_pause = port, count, threads, pause
        self.figures = Figures()
        self._dice = random.Random(1)
        self._is_over = False

    async def run(self, seconds: float, meanwhile: asyncio.Task[None] | None = None) -> Figures:
        kinds = (self._post, self._wait, self._search, self._listen)
        # In a random order, so that no server gets all clients of one kind.
        numbers = self._dice.sample(range(self._count), self._count)
        tasks = [asyncio.create_task(self._begin(kinds[number % 4], number)) for number in numbers]
        await asyncio.sleep(seconds)
        if meanwhile:
            await meanwhile
        self._is_over = True
        await asyncio.sleep(1)  # the listeners get what was posted last
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return self.figures

    async def _begin(self, work: Callable[[int], Awaitable[None]], number: int) -> None:
        """Not all clients at once: with a long pause, the first requests would be most of those that are measured."""
        await self._pause()
        await work(number)

    async def _ask(self, connection: Connection, what: str, method: str, path: str, body: object = None) -> bytes:
        """Ask until there is an answer."""
        began = asked = time.monotonic()
        while True:
            with suppress(*FAILURES):
                status, content = await connection.ask(method, path, body)
                if status < 500:
                    now = time.monotonic()
                    self.figures.latencies.setdefault(what, []).append((now - asked) * 1000)
                    if asked > began:
                        self._note_gap(what, now - began)
                    return content
            self.figures.failures += 1
            await asyncio.sleep(AGAIN)
            asked = time.monotonic()

    def _note_gap(self, what: str, seconds: float) -> None:
        self.figures.gaps_after_failure.setdefault(what, []).append(seconds)

    async def _pause(self) -> None:
        await asyncio.sleep(self._dice.uniform(0, 2 * self._mean_pause))

    async def _post(self, number: int) -> None:
        connection, thread = Connection(self._port), self._threads[number % len(self._threads)]
        while not self._is_over:
            text = f"message {uuid4()} of client {number}: shall we meet at the {COMMON}?"
            body = {"author": f"client {number}", "content": text, "idempotency_key": str(uuid4())}
            said = json.loads(await self._ask(connection, "post", "POST", f"/api/threads/{thread}/messages", body))
            self.figures.acknowledged[said["id"]] = text
            await self._pause()

    async def _wait(self, number: int) -> None:
        connection, thread = Connection(self._port), self._threads[number % len(self._threads)]
        seq = 0
        while not self._is_over:
            asked = time.monotonic()
            path, after = f"/api/threads/{thread}/wait", {"after_seq": seq}
            try:
                status, content = await connection.ask("GET", f"{path}?{urlencode({**after, 'timeout_ms': 2000})}")
            except FAILURES:
                status = 503
            if status >= 500:  # then only ask what is new
                self.figures.failures += 1
                failed = time.monotonic()
                await asyncio.sleep(AGAIN)
                content = await self._ask(
                    connection, "wait again", "GET", f"{path}?{urlencode({**after, 'timeout_ms': 1})}"
                )
                self._note_gap("wait", time.monotonic() - failed)
            else:
                self.figures.latencies.setdefault("wait", []).append((time.monotonic() - asked) * 1000)
            answer = json.loads(content)
            seq = max([seq, *(one["seq"] for one in answer.get("messages", []))])
            await self._pause()

    async def _search(self, number: int) -> None:
        connection = Connection(self._port)
        while not self._is_over:
            query = urlencode({"q": f"client {number - 2} {COMMON}", "limit": 5})
            await self._ask(connection, "search", "GET", f"/api/search?{query}")
            await self._pause()

    async def _listen(self, number: int) -> None:
        ids: list[int] = []
        self.figures.heard.append(ids)
        failed = 0.0
        while True:
            connection = Connection(self._port)
            try:
                resume = f"Last-Event-ID: {ids[-1]}\r\n" if ids else ""
                reader = await connection.send("GET", "/events", headers=resume)
                status, _ = await read_head(reader)
                if failed and status == 200:
                    self._note_gap("listen", time.monotonic() - failed)
                    failed = 0.0
                while status == 200 and (line := await reader.readline()):
                    if line.startswith(b"id: "):
                        ids.append(int(line[4:]))
            except (OSError, EOFError, ValueError):
                pass
            finally:
                connection.close()
            self.figures.failures += 1
            failed = failed or time.monotonic()
            await asyncio.sleep(AGAIN)
