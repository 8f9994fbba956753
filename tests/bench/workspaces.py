"""Many workspaces on both engines: `make bench ARGS="workspaces --count 2000"`.

Prints what creating, opening and upgrading them takes, and what a server that has used all of them has open.
"""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import psutil
import psycopg

from engines import Server, postgres
from measure import cpu_seconds, percentile
from palaver.app import App
from palaver.settings import Settings, load
from palaver.store.bus import threads
from palaver.store.engines import named_sql
from palaver.store.workspaces import file_of

CREATED_AT_ONCE = 4
_newest = named_sql.migrations("sqlite", "workspace")[-1]
NEWEST = _newest[0]
CREATED = re.findall(r"CREATE (TABLE|INDEX) (\w+)", _newest[1])
"""What the newest migration creates. One that changes tables would need its own way back."""


@dataclass
class Place:
    """One engine, and the results of its measurements by name."""

    settings: Settings
    server: Server | None
    results: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def timed(self, name: str, count: int) -> Iterator[None]:
        """Measure milliseconds for each of `count`: elapsed, and of processor time, with the database server's."""
        clock, cpu = time.monotonic(), self._cpu()
        yield
        elapsed, spent = time.monotonic() - clock, self._cpu() - cpu
        self.results[name] = f"{elapsed / count * 1000:.1f} / {spent / count * 1000:.1f}"

    def _cpu(self) -> float:
        return time.process_time() + (cpu_seconds(self.server.pid) if self.server else 0.0)

    def connections(self) -> int:
        with psycopg.connect(self.settings.database_url) as raw:
            row = raw.execute("SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()").fetchone()
        return int(row[0]) if row else 0


async def create(place: Place, names: list[str]) -> None:
    app, waiting = App(place.settings), iter(names)
    await app.open()

    async def create_some() -> None:
        for name in waiting:
            here = await app.create_workspace(name)
            await here.change(lambda change: threads.open_or_create(change, "a topic"))

    with place.timed("creating one, with a thread", len(names)):
        await asyncio.gather(*(create_some() for _ in range(CREATED_AT_ONCE)))
    await app.close()


async def use(place: Place, names: list[str]) -> None:
    """Start, and open all workspaces once, one after another."""
    with place.timed("start", 1):
        app = App(place.settings)
        await app.open()
    process, before = psutil.Process(), psutil.Process().memory_info().rss
    spent, elapsed = [], []
    for name in names:
        clock, cpu = time.monotonic(), time.process_time()
        here = await app.open(name)
        await here.read(lambda read: threads.named(read, "a topic"))
        elapsed.append((time.monotonic() - clock) * 1000)
        spent.append((time.process_time() - cpu) * 1000)
    place.results["opening one and a read: p50"] = f"{percentile(elapsed, 50):.1f} / {percentile(spent, 50):.1f}"
    place.results["opening one and a read: p95"] = f"{percentile(elapsed, 95):.1f} / {percentile(spent, 95):.1f}"
    await app.close_idle_workspaces()
    place.results["resident memory more than before, MB"] = f"{(process.memory_info().rss - before) / 2**20:.0f}"
    place.results["databases open"] = str(len(app.opened()))
    place.results["threads of the process"] = str(process.num_threads())
    place.results["open files of the process"] = str(process.num_fds())
    place.results["connections to PostgreSQL"] = str(place.connections()) if place.server else ""
    await app.close()


async def upgrade(place: Place, names: list[str], at_once: int) -> None:
    for name in names:
        set_back(place.settings, name)
    app, problems = App(place.settings), list[str]()
    with place.timed(f"upgrading one, {at_once} at once", len(names)):
        await app.upgrade_workspaces(at_once, lambda name, problem: problems.append(name) if problem else None)
    assert not problems, problems
    await app.close()
    app = App(place.settings)
    with place.timed("upgrading one that is up to date", len(names)):
        await app.upgrade_workspaces(at_once, lambda name, problem: None)
    await app.close()


def set_back(settings: Settings, name: str) -> None:
    """Give a workspace the schema before the newest."""
    if settings.database_url:
        with psycopg.connect(settings.database_url) as raw:
            raw.execute(f'DELETE FROM "workspace_{name}".migrations WHERE number = {NEWEST}'.encode())
            for kind, created in CREATED:
                raw.execute(f'DROP {kind} "workspace_{name}".{created}'.encode())
    else:
        connection = apsw.Connection(str(file_of(settings, name, "workspace")))
        connection.pragma("user_version", NEWEST - 1)
        for kind, created in CREATED:
            connection.execute(f"DROP {kind} {created}")
        connection.close()


def main(count: int) -> int:
    names = [f"team{number}" for number in range(count)]
    random.Random(7).shuffle(names)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other, postgres() as server:
        places = [
            Place(load({"home": Path(one), "database_url": server.url, "model": "words"}), server),
            Place(load({"home": Path(other), "model": "words"}), None),
        ]
        for place in places:
            asyncio.run(create(place, names))
            asyncio.run(use(place, names))
            asyncio.run(upgrade(place, names[: count // 4], 1))
            asyncio.run(upgrade(place, names, 4))
    print(f"{count:,} workspaces; times are ms / ms of CPU, for PostgreSQL with the server's where it works alone")
    print("| what | PostgreSQL | SQLite |\n|---|---|---|")
    for name in places[0].results:
        print(f"| {name} | {places[0].results[name]} | {places[1].results[name]} |")
    return 0
