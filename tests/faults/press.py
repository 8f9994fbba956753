"""Clients that press on a real server and remember what they were promised."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import psutil
import psycopg
from psycopg.rows import dict_row
from tests.helpers import PATIENCE, Server, eventually, word

KEPT_ALIVE = 3.0
"""Seconds after which a connection nobody used may be closed."""

IS_LONG = os.environ.get("PALAVER_FAULTS") == "long"


def tell(text: str, test: str = "") -> None:
    """A measurement, for whoever runs the tests with -s, and for the file PALAVER_REPORT names (tools/reliability)."""
    print(f"\n    {text}", end="", flush=True)
    if report := os.environ.get("PALAVER_REPORT"):
        test = test or os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
        with Path(report).open("a", encoding="utf-8") as file:
            file.write(f"{test}\t{text}\t{'long' if IS_LONG else 'short'}\t{time.strftime('%Y-%m-%d')}\n")


class Client:
    """One kept-alive connection. Cheap, so that on a small machine the server gets the processor."""

    def __init__(self, server: Server) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        self._used = time.monotonic()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"content-type": "application/json"} if body is not None else {}
        if time.monotonic() - self._used > KEPT_ALIVE:
            self._http.close()  # the server has, too
        self._http.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = self._http.getresponse()
        self._used = time.monotonic()
        return response.status, json.loads(response.read() or b"null")

    def upload(self, path: str, name: str, data: bytes) -> tuple[int, Any]:
        """Send a file as a form."""
        edge = word("edge")
        head = f'--{edge}\r\ncontent-disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        body = head.encode() + data + f"\r\n--{edge}--\r\n".encode()
        if time.monotonic() - self._used > KEPT_ALIVE:
            self._http.close()
        self._http.request("POST", path, body, {"content-type": f"multipart/form-data; boundary={edge}"})
        response = self._http.getresponse()
        self._used = time.monotonic()
        return response.status, json.loads(response.read() or b"null")

    def get(self, path: str) -> tuple[int, bytes]:
        """The answer as it is, such as a file."""
        if time.monotonic() - self._used > KEPT_ALIVE:
            self._http.close()
        self._http.request("GET", path)
        response = self._http.getresponse()
        self._used = time.monotonic()
        return response.status, response.read()

    def thread(self) -> str:
        status, answer = self.ask("POST", "/api/threads", {"topic": f"thread {word()}"})
        assert status == 201, answer
        return str(answer["id"])

    def post(self, thread_id: str, content: str, author: str = "ann") -> tuple[int, Any]:
        return self.ask("POST", f"/api/threads/{thread_id}/messages", {"author": author, "content": content})

    def messages(self, thread_id: str) -> list[dict[str, Any]]:
        """All of a thread, page by page."""
        found: list[dict[str, Any]] = []
        while True:
            after = found[-1]["seq"] if found else 0
            status, page = self.ask("GET", f"/api/threads/{thread_id}/messages?limit=1000&after_seq={after}")
            assert status == 200, page
            if not page:
                return found
            found += page

    def found(self, typed: str) -> list[str]:
        status, answer = self.ask("GET", f"/api/search?q={typed}&limit=200")
        assert status == 200, answer
        return [hit["message_id"] for hit in answer["results"]]

    def close(self) -> None:
        self._http.close()


@dataclass
class Promised:
    """What the server acknowledged, and what else it said."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    refused: list[tuple[int, Any]] = field(default_factory=list)
    broken: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def p50(self) -> float:
        return percentile(self.seconds, 50)

    def wait_for(self, count: int, seconds: float = PATIENCE) -> None:
        """Wait until more than `count` messages are acknowledged."""
        eventually(lambda: len(self.messages) > count, seconds)


def percentile(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


@contextmanager
def pressing(
    server: Server, rooms: list[str], clients: int = 8, most: int = 20_000, content: str = ""
) -> Iterator[Promised]:
    """Clients post as fast as they are answered, until the block is left (or the connection breaks)."""
    promised, enough = Promised(), threading.Event()

    def post_on(number: int) -> None:
        client = Client(server)
        room, name = rooms[number % len(rooms)], word("c")
        for n in range(most // clients):
            if enough.is_set():
                break
            said = f"common {name}x{n} {content}"
            began = time.perf_counter()
            try:
                status, answer = client.post(room, said, f"client {number}")
            except (OSError, http.client.HTTPException, ValueError):
                promised.broken += 1
                break
            promised.seconds.append(time.perf_counter() - began)
            if status == 201:
                assert answer["content"] == said
                promised.messages.append(answer)
            else:
                promised.refused.append((status, answer))
        client.close()

    threads = [threading.Thread(target=post_on, args=(number,), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield promised
    finally:
        enough.set()
        for thread in threads:
            thread.join(30)


def must_keep_its_promises(server: Server, rooms: list[str], promised: Promised, searches: int = 60) -> None:
    """Everything acknowledged is there as it was acknowledged, and found; numbers have no gaps and no twins."""
    client = Client(server)
    said = {room: client.messages(room) for room in set(rooms)}
    for room, messages in said.items():
        assert [m["seq"] for m in messages] == list(range(1, len(messages) + 1)), f"gap or twin in {room}"
    there = {m["id"]: m for messages in said.values() for m in messages}
    for message in promised.messages:
        assert message["id"] in there, f"acknowledged and gone: {message}"
        assert there[message["id"]] == message
    last = promised.messages[-searches:]  # what came last is most in danger
    for message in last + promised.messages[:: max(1, len(promised.messages) // searches)]:
        assert client.found(message["content"].split()[1]) == [message["id"]]
    client.close()


# A look past the doors

WRONG = {
    "a message without an index row": "SELECT id FROM passages WHERE id NOT IN (SELECT {key} FROM passage_index)",
    "an index row without a message": "SELECT {key} FROM passage_index WHERE {key} NOT IN (SELECT id FROM passages)",
    "a thread whose last seq is not its last message's": (
        "SELECT t.document_id FROM threads t WHERE t.last_seq <> "
        "(SELECT coalesce(max(position), 0) FROM passages p WHERE p.document_id = t.document_id)"
    ),
    "a thread that counts wrong": (
        "SELECT t.document_id FROM threads t WHERE t.message_count <> "
        "(SELECT count(*) FROM passages p WHERE p.document_id = t.document_id AND p.position > 0)"
    ),
    "a gap in a thread": ("SELECT document_id FROM passages GROUP BY document_id HAVING count(*) <> max(position) + 1"),
    "a message nobody was told of": (
        "SELECT id FROM passages WHERE position > 0 AND native_id NOT IN "
        "(SELECT message_id FROM events WHERE type = 'msg.new' AND message_id IS NOT NULL)"
    ),
    "an event of a message that is not there": (
        "SELECT id FROM events WHERE type = 'msg.new' AND message_id NOT IN (SELECT native_id FROM passages)"
    ),
    "a gap in the log": (
        "SELECT value FROM counters WHERE name = 'events' AND (value <> (SELECT count(*) FROM events) "
        "OR value <> (SELECT coalesce(max(id), 0) FROM events))"
    ),
    "a document without a thread": (
        "SELECT id FROM documents WHERE source = 'bus' AND id NOT IN (SELECT document_id FROM threads)"
    ),
}


def must_be_whole(server: Server) -> None:
    """No half of anything in the tables themselves. For threads from which nothing was deleted."""
    url = server.env.get("PALAVER_DATABASE_URL", "")
    if url.startswith("postgresql"):
        with psycopg.connect(url, row_factory=dict_row, options="-c search_path=workspace_default") as raw:
            found: dict[str, list[Any]] = {
                what: raw.execute(sql.format(key="passage_id").encode()).fetchall() for what, sql in WRONG.items()
            }
    else:
        place = Path(url.removeprefix("sqlite:///")) if url else server.home
        connection = apsw.Connection(str(place / "workspaces" / "default.db"))
        try:
            assert connection.pragma("integrity_check") == "ok"
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
            connection.execute("INSERT INTO passage_index (passage_index) VALUES ('integrity-check')")
            found = {what: connection.execute(sql.format(key="rowid")).fetchall() for what, sql in WRONG.items()}
        finally:
            connection.close()
    wrong = {what: rows[:5] for what, rows in found.items() if rows}
    assert not wrong, wrong


def rss(server: Server) -> float:
    """Megabytes."""
    return float(psutil.Process(server.pid).memory_info().rss) / 1e6


def cpu(server: Server) -> float:
    times = psutil.Process(server.pid).cpu_times()
    return float(times.user + times.system)


def kill(server: Server) -> None:
    """As hard as it gets."""
    with suppress(ProcessLookupError):
        server.process.kill()
    server.process.wait(10)
