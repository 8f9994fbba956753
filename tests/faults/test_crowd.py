"""Many at once: nothing acknowledged is missing, and nobody waits for somebody else's search."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from tests.faults.conftest import Start
from tests.faults.press import IS_LONG, Client, must_be_whole, must_keep_its_promises, pressing, tell
from tests.helpers import Server, eventually, start_server
from tests.store.bus import opened

from palaver.settings import Settings
from palaver.store.bus import messages, threads
from palaver.store.engines.database import Change

SECONDS = 30.0 if IS_LONG else 2.0


@pytest.mark.parametrize("count", [8, 1], ids=["a thread each", "all in one thread"])
def test_eight_clients_at_once_lose_nothing(own: Server, client: Client, count: int):
    rooms = [client.thread() for _ in range(count)]
    began = time.monotonic()
    with pressing(own, rooms) as promised:
        time.sleep(SECONDS)
        eventually(lambda: len(promised.messages) > 100)
        took = time.monotonic() - began
    tell(f"{len(promised.messages) / took:,.0f} posts/s, p50 {promised.p50 * 1000:.1f} ms")
    assert promised.refused == []
    assert promised.broken == 0
    assert len(promised.messages) > 100
    assert sum(len(client.messages(room)) for room in rooms) == len(promised.messages)
    must_keep_its_promises(own, rooms, promised)
    must_be_whole(own)


def test_two_processes_on_one_data_directory_are_one_bus(start: Start):
    with start() as one, start() as other:
        assert one.port != other.port
        room = Client(one).thread()
        with pressing(one, [room], clients=4) as here, pressing(other, [room], clients=4) as there:
            time.sleep(SECONDS)
            eventually(lambda: min(len(here.messages), len(there.messages)) > 30)
        tell(f"{len(here.messages)} + {len(there.messages)} posts")
        assert here.refused == there.refused == []
        assert min(len(here.messages), len(there.messages)) > 30
        for promised in (here, there):
            must_keep_its_promises(one, [room], promised, searches=20)
            must_keep_its_promises(other, [room], promised, searches=20)
        must_be_whole(one)


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with very many messages, every second of which says 'harbour'."""
    home = tmp_path_factory.mktemp("crowded")

    def fill(change: Change, start: int, count: int) -> None:
        thread, _ = threads.open_or_create(change, f"load {start // 20_000}")
        for n in range(start, start + count):
            text = f"{'harbour' if n % 2 else 'mooring'} message {n} of some words that are said again and again w{n % 997}"
            draft = messages.Draft(author="loader", author_id=None, author_name="loader", content=text)
            messages.add(change, thread, draft, threads.next_seq(change, thread), None)

    async def load() -> None:
        async with opened(Settings(home=home)) as bus:
            for start in range(0, 100_000 if IS_LONG else 40_000, 5_000):
                await bus.here.change(partial(fill, start=start, count=5_000))

    asyncio.run(load())
    return home


@pytest.mark.slow
def test_searching_for_a_common_word_does_not_slow_posting(crowded: Path):
    with start_server(crowded) as server:
        client = Client(server)
        room = client.thread()

        def median(count: int = 200) -> float:
            taken = []
            for n in range(count):
                began = time.perf_counter()
                status, answer = client.post(room, f"meanwhile {n}")
                taken.append(time.perf_counter() - began)
                assert status == 201, answer
                time.sleep(0.002)
            return sorted(taken)[count // 2]

        median(50)
        quiet, stop = median(), threading.Event()
        searches: list[float] = []

        def search_on() -> None:
            mine = Client(server)
            while not stop.is_set() and len(searches) < 10_000:
                began = time.perf_counter()
                assert len(mine.found("harbour")) == 200
                searches.append(time.perf_counter() - began)

        searchers = [threading.Thread(target=search_on, daemon=True) for _ in range(2)]
        for searcher in searchers:
            searcher.start()
        busy = median()
        stop.set()
        for searcher in searchers:
            searcher.join(30)
        tell(
            f"p50 of a post {quiet * 1000:.2f} ms, with 2 searchers {busy * 1000:.2f} ms; "
            f"{len(searches)} searches, p50 {sorted(searches)[len(searches) // 2] * 1000:.0f} ms"
        )
        assert len(searches) > 10
        assert busy < quiet * 8 + 0.02, "posting waits for searching"
