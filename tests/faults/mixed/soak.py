"""Run a server for a long time with many clients that do everything: `make soak ARGS="--minutes 30 --engine sqlite"`.

The server is a process of its own with the default model and 8,000 imported messages. Every ten seconds its memory, open files and
threads are measured, together with those of its worker. At the end everything that was acknowledged is checked. The
exit code is 1 if anything is missing, if a client got an error, or if the memory grew by more than 10 % after the first
five minutes.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from tests.archive.test_conversation_search import NOON, chat
from tests.conftest import postgres_server
from tests.faults.mixed.clients import ACTIONS, WORDS, Crowd, MixedClient
from tests.faults.mixed.promises import must_keep_everything
from tests.faults.press import Client, tell
from tests.faults.streams import Stream
from tests.helpers import PATIENCE, Server, environment, eventually, free_port
from tests.importers.shapes import as_json

ROOMS = 10
MOST_GROWTH = 0.10


@dataclass(frozen=True)
class Soak:
    """What to run. `settle` is the time after which the memory must stay the same."""

    engine: str = "sqlite"
    minutes: float = 30.0
    clients: int = 50
    pause: float = 2.0
    settle: float = 5.0
    measure_seconds: float = 10.0
    history: int = 400
    """Conversations of 20 messages that are imported first. A server with data fills its caches at once."""
    model: str = ""
    """The embedding model. Default: that of palaver."""


@dataclass(frozen=True)
class Measurement:
    minute: float
    server_mb: float
    worker_mb: float
    files: int
    threads: int
    done: int
    errors: int

    @property
    def memory(self) -> float:
        return self.server_mb + self.worker_mb

    def __str__(self) -> str:
        return (
            f"{self.minute:5.1f} min  server {self.server_mb:4.0f} MB  worker {self.worker_mb:4.0f} MB  "
            f"{self.files} files  {self.threads} threads  {self.done:,} actions  {self.errors} errors"
        )


@dataclass
class Result:
    done: Counter[str] = field(default_factory=Counter)
    measured: list[Measurement] = field(default_factory=list)
    checked: int = 0
    events: int = 0
    errors: list[str] = field(default_factory=list)


@contextmanager
def running_server(soak: Soak, home: Path) -> Iterator[Server]:
    """A server as a user starts it. On PostgreSQL it has a database server of its own, with the default settings."""
    with ExitStack() as stack:
        is_postgres = soak.engine == "postgres"
        url = stack.enter_context(postgres_server()).get_uri() if is_postgres else f"sqlite:///{home / 'data'}"
        port, log = free_port(), home / "server.log"
        # The machine may be busy with other work, so a slow search is no error. The background check runs often.
        env = environment(
            home, PALAVER_PORT=port, PALAVER_DATABASE_URL=url, PALAVER_CHECK="2m", PALAVER_SEARCH_TIMEOUT=60
        )
        env.pop("PALAVER_MODEL", None)  # tests/conftest.py sets it
        if soak.model:
            env["PALAVER_MODEL"] = soak.model
        with log.open("wb") as out:
            command = [sys.executable, "-m", "palaver", "serve", "--no-watch"]
            process = subprocess.Popen(command, env=env, cwd=home, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        server = Server(home, f"http://127.0.0.1:{port}", port, env, process, log)
        try:
            eventually(server.is_ready, PATIENCE * 3)
            yield server
        finally:
            process.terminate()
            process.wait(PATIENCE)


def measure(server: Server, crowd: Crowd, began: float) -> Measurement:
    process = psutil.Process(server.pid)
    workers = process.children(recursive=True)
    return Measurement(
        minute=(time.monotonic() - began) / 60,
        server_mb=process.memory_info().rss / 1e6,
        worker_mb=sum(_rss(worker) for worker in workers),
        files=process.num_fds(),
        threads=process.num_threads(),
        done=crowd.done,
        errors=len(crowd.errors) + len(crowd.breaks),
    )


def _rss(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss) / 1e6
    except psutil.NoSuchProcess:
        return 0.0


class Hearing:
    """Listens to all events from the first to the last. It reconnects where it stopped."""

    def __init__(self, server: Server) -> None:
        self.server, self.last, self.messages, self.problems = server, 0, Counter[str](), list[str]()
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def _go(self) -> None:
        while not self._enough.is_set():
            try:
                with Stream(self.server, "/events", after=self.last) as stream:
                    while not self._enough.is_set() and (frames := stream.next()):
                        for frame in frames:
                            self._hear(frame)
            except OSError:
                time.sleep(0.1)

    def _hear(self, frame: Any) -> None:
        if frame.id != self.last + 1:
            self.problems.append(f"event {frame.id} came after event {self.last}")
        self.last = frame.id
        if frame.type == "msg.new":
            self.messages[frame.data["id"]] += 1

    def stop(self) -> None:
        self._enough.set()


def run(soak: Soak, home: Path) -> Result:
    """Run the clients, then check everything."""
    result = Result()
    with running_server(soak, home) as server:
        first = Client(server)
        rooms = [first.thread() for _ in range(ROOMS)]
        hearing = Hearing(server)
        import_history(first, soak.history)
        crowd = Crowd([MixedClient(server, n, rooms) for n in range(soak.clients)], tuple(ACTIONS), soak.pause)
        began = time.monotonic()
        crowd.start()
        while time.monotonic() - began < soak.minutes * 60:
            time.sleep(soak.measure_seconds)
            result.measured.append(measure(server, crowd, began))
            print(f"{soak.engine:8} {result.measured[-1]}", flush=True)
        crowd.stop()
        for client in crowd.clients:
            result.done += client.done
        result.errors += crowd.errors + crowd.breaks
        check(result, server, crowd, hearing, rooms)
        result.errors += grown(result.measured, soak.settle)
        said = server.said()
    result.errors += [
        f"the log of the server: {told[-3000:]}" for told in re.findall(r"Traceback.*?\n(?=\S|$)", said, re.S)
    ]
    doctor = subprocess.run(
        [sys.executable, "-m", "palaver", "doctor"], env=server.env, capture_output=True, text=True, check=False
    )
    if doctor.returncode and soak.engine == "sqlite":  # the PostgreSQL of this run has ended with it
        result.errors.append(f"palaver doctor: {doctor.stdout[-500:]}")
    return result


def import_history(client: Client, conversations: int) -> None:
    dice = random.Random(1)
    said = [[("user", " ".join(dice.choices(WORDS, k=25)), NOON + n) for n in range(20)] for _ in range(conversations)]
    talks = [chat(f"talk {n}", *messages, id=f"history-{n}") for n, messages in enumerate(said)]
    status, job = client.upload("/api/import", "conversations.json", as_json(talks))
    assert status == 202, job
    eventually(lambda: client.ask("GET", f"/api/import/{job['id']}")[1]["status"] == "done", 600)


def check(result: Result, server: Server, crowd: Crowd, hearing: Hearing, rooms: list[str]) -> None:
    """Every promise, through the doors of the running server."""
    ledgers = [client.ledger for client in crowd.clients]
    last = Client(server)
    try:
        result.checked = must_keep_everything(server, ledgers, rooms, is_full=True)
        newest = last.ask("GET", "/api/status")[1]["last_event_id"]
        eventually(lambda: hearing.last >= newest)
        told = {id for ledger in ledgers for id in ledger.messages}
        wrong = [id for id in told if hearing.messages[id] != 1]
        if wrong:
            result.errors.append(f"{len(wrong)} messages were not told exactly once, e.g. {wrong[0]}")
        status = last.ask("GET", "/api/overview")[1]["status"]
        if status["check"]["findings"]:
            result.errors.append(f"the background check found: {status['check']['findings']}")
        if last.ask("GET", "/readyz") != (200, {"status": "ready"}):
            result.errors.append(f"not ready: {last.ask('GET', '/readyz')}")
    except AssertionError as problem:
        result.errors.append(str(problem)[:1000])
    hearing.stop()
    result.events = hearing.last
    result.errors += hearing.problems[:10]


def grown(measured: list[Measurement], settle: float) -> list[str]:
    """Compares the memory after the first minutes with that of the last ones. A median leaves out single peaks."""
    after = [one for one in measured if one.minute >= settle]
    if len(after) < 20:
        return []
    first, last = (_median(after[: len(after) // 5]), _median(after[-len(after) // 5 :]))
    if last > first * (1 + MOST_GROWTH):
        return [f"the memory grew from {first:.0f} to {last:.0f} MB"]
    return []


def _median(measured: list[Measurement]) -> float:
    return sorted(one.memory for one in measured)[len(measured) // 2]


def summary(soak: Soak, result: Result) -> str:
    after = [one for one in result.measured if one.minute >= soak.settle] or result.measured
    fifth = max(1, len(after) // 5)
    first, last = _median(after[:fifth]), _median(after[-fifth:])
    most_files, most_threads = (max(getattr(one, what) for one in result.measured) for what in ("files", "threads"))
    return (
        f"{soak.clients} clients, {soak.minutes:g} minutes, {sum(result.done.values()):,} actions of "
        f"{len(result.done)} kinds, {len(result.errors)} errors; {result.checked:,} things and {result.events:,} events "
        f"checked; median memory of the first fifth after minute {soak.settle:g} {first:.0f} MB, of the last {last:.0f} MB "
        f"({(last / first - 1) * 100:+.1f} %); at most {most_files} open files and {most_threads} threads"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="how long the clients run (default: 30)")
    parser.add_argument("--engine", choices=("sqlite", "postgres"), default="sqlite", help="default: sqlite")
    parser.add_argument("--clients", type=int, default=50, help="default: 50")
    parser.add_argument(
        "--pause", type=float, default=2.0, help="mean pause of a client between two actions, in seconds"
    )
    given = parser.parse_args()
    soak = Soak(given.engine, given.minutes, given.clients, given.pause)
    with tempfile.TemporaryDirectory(prefix="soak-") as home:
        result = run(soak, Path(home))
    tell(summary(soak, result), f"tests/faults/mixed/soak.py::[{soak.engine}]")
    print("\n" + ", ".join(f"{name} {count:,}" for name, count in result.done.most_common()))
    for error, count in Counter(result.errors).most_common(30):
        print(f"{count} × {error}")
    return 1 if result.errors else 0


if __name__ == "__main__":
    sys.exit(main())
