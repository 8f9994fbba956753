"""AgentChatBus, the nearest thing to palaver's bus, run beside it on the same machine under the same load.

It lives in a virtual environment of its own, made once in $PALAVER_BENCH_CACHE or `.bench/`.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from measure import Request

PACKAGES = ("agentchatbus==0.2.2", "mcp<2")
CACHE = Path(os.environ.get("PALAVER_BENCH_CACHE") or Path(__file__).resolve().parents[2] / ".bench")

MAKE_SCHEMA = """
import asyncio
from src.db.database import close_db, get_db

async def main():
    await get_db()
    await close_db()

asyncio.run(main())
"""


def installed() -> Path:
    """The folder with the peer's programs; makes it when it is not there yet."""
    home = CACHE / "peer"
    complete, wanted = home / "complete", "\n".join(PACKAGES)
    if not complete.exists() or complete.read_text() != wanted:
        print(f"installing {', '.join(PACKAGES)} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True, timeout=120)
        pip = [str(home / "bin/python"), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES], check=True, timeout=600)
        complete.write_text(wanted)
    return home / "bin"


class Peer:
    """A running AgentChatBus on the loopback, with its limits on posting switched off.

    with Peer(preload=corpus(100_000)) as peer:
        thread = peer.create_thread("plans")
        peer.post(peer.client, thread, "hello")
    """

    def __init__(self, preload: Iterable[str] = (), threads: int = 100) -> None:
        self._preload = preload
        self._threads = threads

    def __enter__(self) -> Self:
        self._bin = installed()
        self._folder = tempfile.TemporaryDirectory(prefix="palaver-peer-", ignore_cleanup_errors=True)
        self.database = Path(self._folder.name) / "bus.db"
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCHATBUS_")}
        self._environment |= {
            "AGENTCHATBUS_HOST": "127.0.0.1",
            "AGENTCHATBUS_PORT": str(self.port),
            "AGENTCHATBUS_DB": str(self.database),
            "AGENTCHATBUS_RATE_LIMIT": "0",
            "AGENTCHATBUS_RELOAD": "0",
        }
        try:
            self._fill()
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if client := getattr(self, "client", None):
            client.close()
        if process := getattr(self, "_process", None):
            process.terminate()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=15)
        self._folder.cleanup()

    def _fill(self) -> None:
        """Write the preloaded messages straight into its file; its own trigger puts them into its index."""
        subprocess.run(
            [self._bin / "python", "-c", MAKE_SCHEMA],
            env=self._environment, cwd=self._folder.name, check=True, timeout=60, capture_output=True,
        )  # fmt: skip
        now = datetime.now(UTC).isoformat()
        threads = [str(uuid.uuid4()) for _ in range(self._threads)]
        rows = (
            (str(uuid.uuid4()), threads[number % len(threads)], "preload", text, number, now, "preload")
            for number, text in enumerate(self._preload, 1)
        )
        connection = sqlite3.connect(self.database)
        try:
            with connection:
                connection.executemany(
                    "INSERT INTO threads (id, topic, created_at, updated_at) VALUES (?, ?, ?, ?)",
                    [(id, f"preload {number}", now, now) for number, id in enumerate(threads)],
                )
                connection.executemany(
                    "INSERT INTO messages (id, thread_id, author, content, seq, created_at, author_name)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    rows,
                )
                connection.execute("UPDATE seq_counter SET val = (SELECT coalesce(max(seq), 0) FROM messages)")
        finally:
            connection.close()

    def _start(self) -> None:
        log = Path(self._folder.name) / "server.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [self._bin / "agentchatbus"],
                env=self._environment, cwd=self._folder.name, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.pid = self._process.pid
        self.client = httpx.Client(base_url=self.url, timeout=30, trust_env=False)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                self.client.get("/health").raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(0.1)
        else:
            raise RuntimeError(f"the peer did not come up:\n{log.read_text(errors='replace')[-2000:]}")
        answer = self.client.post("/api/agents/register", json={"ide": "bench", "model": "bench"}).raise_for_status()
        self.agent_id, self._token = answer.json()["agent_id"], answer.json()["token"]

    @property
    def headers(self) -> dict[str, str]:
        return {"X-Agent-Token": self._token}

    def create_thread(self, topic: str) -> str:
        body = {"topic": topic, "creator_agent_id": self.agent_id}
        return str(self.client.post("/api/threads", json=body, headers=self.headers).raise_for_status().json()["id"])

    def post(self, client: httpx.Client, thread_id: str, text: str) -> str:
        """Post as the registered agent and return the message's id."""
        body = {"author": self.agent_id, "content": text}
        answer = client.post(f"{self.url}/api/threads/{thread_id}/messages", json=body, headers=self.headers)
        return str(answer.raise_for_status().json()["id"])

    def search(self, client: httpx.Client, q: str, limit: int = 50) -> list[dict[str, Any]]:
        answer = client.get(f"{self.url}/api/search", params={"q": q, "limit": limit}).raise_for_status()
        found: list[dict[str, Any]] = answer.json()["results"]
        return found

    def posting(self, thread_ids: Sequence[str]) -> Posting:
        """For `press`: each client posts as the registered agent, to a thread of its own where there are enough."""
        return Posting(tuple(thread_ids), self.agent_id, self._token)

    def lost(self, message_ids: Iterable[str]) -> list[str]:
        """Those of the acknowledged messages that are not in its database."""
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        try:
            kept = {id for (id,) in connection.execute("SELECT id FROM messages")}
        finally:
            connection.close()
        return [id for id in message_ids if id not in kept]


@dataclass(frozen=True)
class Posting:
    thread_ids: tuple[str, ...]
    agent_id: str
    token: str

    def __call__(self, client: int, number: int) -> Request:
        thread_id = self.thread_ids[client % len(self.thread_ids)]
        body = {"author": self.agent_id, "content": f"message {number} of client {client}: shall we meet at noon?"}
        return Request("POST", f"/api/threads/{thread_id}/messages", body, {"X-Agent-Token": self.token})


@dataclass(frozen=True)
class Searching:
    q: str
    limit: int = 50

    def __call__(self, client: int, number: int) -> Request:
        return Request("GET", f"/api/search?q={quote(self.q)}&limit={self.limit}")


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
