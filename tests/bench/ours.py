"""palaver itself, as a server to be measured: filled through its own store, started as users start it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from measure import Request
from palaver.app import App
from palaver.model.ids import new_id
from palaver.model.messages import Message
from palaver.model.times import now
from palaver.settings import load
from palaver.store.bus import messages, threads
from palaver.store.engines.database import Change


class Ours:
    def __init__(
        self, preload: Iterable[str] = (), topics: int = 100, model: str = "words", database_url: str = ""
    ) -> None:
        # Without a model nothing runs in the background: its processor time would be counted.
        self._preload, self._topics, self._model = preload, topics, model
        self.database_url = database_url

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="palaver-bench-", ignore_cleanup_errors=True)
        self.home = Path(self._folder.name)
        self.database = self.home / "workspaces" / "default.db"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        asyncio.run(self._fill())
        self.start()
        return self

    async def _fill(self) -> None:
        app = App(load({"home": self.home, "database_url": self.database_url}))
        here = await app.open()
        texts = enumerate(self._preload)
        while batch := list(islice(texts, 2000)):
            await here.change(lambda change: self._post_all(change, batch))
        await app.close()

    def _post_all(self, change: Change, batch: list[tuple[int, str]]) -> None:
        stored = [threads.open_or_create(change, f"preload {n}")[0] for n in range(self._topics)]
        for number, text in batch:
            thread = stored[number % self._topics]
            id, seq = new_id(), threads.next_seq(change, thread)
            said = Message(id, id, thread.thread.id, seq, "preload", None, "preload", "user", text, now())
            messages.add(change, thread, said)

    def start(self) -> float:
        """Start the server; returns the seconds until it answered a search."""
        began = time.perf_counter()
        log = (self.home / "server.log").open("ab")
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from palaver.doors.http.server import serve; from palaver.settings import load; serve(load())",
            ],
            env=self.environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        self.pid = self._process.pid
        self.client = httpx.Client(base_url=self.url, timeout=30, trust_env=False)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                self.client.get("/api/search", params={"q": "harbour"}).raise_for_status()
                seconds = time.perf_counter() - began
                self.client.get("/mcp")  # answered once its library is loaded: that is not what we measure
                return seconds
            except httpx.HTTPError:
                time.sleep(0.01)
        raise RuntimeError(f"palaver did not come up:\n{(self.home / 'server.log').read_text()[-2000:]}")

    def environment(self) -> dict[str, str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PALAVER_")}
        environment |= {"PALAVER_HOME": str(self.home), "PALAVER_PORT": str(self.port), "PALAVER_MODEL": self._model}
        return environment | ({"PALAVER_DATABASE_URL": self.database_url} if self.database_url else {})

    def stop(self) -> None:
        self.client.close()
        self._process.terminate()
        self._process.wait(timeout=15)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._folder.cleanup()

    def create_thread(self, topic: str) -> str:
        return str(self.client.post("/api/threads", json={"topic": topic}).raise_for_status().json()["id"])

    def lost(self, message_ids: Sequence[str]) -> list[str]:
        """Those of the acknowledged messages that cannot be read back."""
        return [id for id in message_ids if self.client.get(f"/api/messages/{id}").status_code != 200]


@dataclass(frozen=True)
class Posting:
    thread_ids: tuple[str, ...]

    def __call__(self, client: int, number: int) -> Request:
        thread_id = self.thread_ids[client % len(self.thread_ids)]
        body = {"author": "bench", "content": f"message {number} of client {client}: shall we meet at noon?"}
        return Request("POST", f"/api/threads/{thread_id}/messages", body)
