"""Many at once: nothing acknowledged is missing, and nobody waits for somebody else's search."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from http.client import HTTPException
from typing import Any

import pytest
from tests.conftest import ONE_ENGINE
from tests.faults.conftest import Start
from tests.faults.press import IS_LONG, Client, kill, must_be_whole, must_keep_its_promises, pressing, tell
from tests.helpers import PATIENCE, Server, eventually

POSTS = 20_000 if IS_LONG else 400


@pytest.mark.parametrize("count", [8, 1], ids=["a thread each", "all in one thread"])
def test_eight_clients_at_once_lose_nothing(own: Server, client: Client, count: int):
    rooms = [client.thread() for _ in range(count)]
    began = time.monotonic()
    with pressing(own, rooms) as promised:
        promised.wait_for(POSTS, PATIENCE * 10)
        took = time.monotonic() - began
    tell(f"{len(promised.messages) / took:,.0f} posts/s, p50 {promised.p50 * 1000:.1f} ms")
    assert promised.refused == []
    assert promised.broken == 0
    assert sum(len(client.messages(room)) for room in rooms) == len(promised.messages)
    must_keep_its_promises(own, rooms, promised)
    must_be_whole(own)


def test_two_processes_on_one_data_directory_are_one_bus(start: Start):
    with start() as one, start() as other:
        assert one.port != other.port
        room = Client(one).thread()
        with pressing(one, [room], clients=4) as here, pressing(other, [room], clients=4) as there:
            eventually(lambda: min(len(here.messages), len(there.messages)) > POSTS // 4, PATIENCE * 10)
        tell(f"{len(here.messages)} + {len(there.messages)} posts")
        assert here.refused == there.refused == []
        for promised in (here, there):
            must_keep_its_promises(one, [room], promised, searches=20)
            must_keep_its_promises(other, [room], promised, searches=20)
        must_be_whole(one)


ENDLESS_SEARCH = """
import os, threading
from palaver.operations.search import bus_search
ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT 1 FROM c) SELECT count(*) AS n FROM c"
def search(read, *rest, **more):
    open(os.path.join(os.environ["PALAVER_HOME"], f"searching-{threading.get_ident()}"), "w").close()
    read.connection.fetch(ENDLESS, {})
bus_search.match_messages = search
"""


@ONE_ENGINE  # PostgreSQL has a process for each search, and it would go on after the test
def test_posts_are_answered_while_searches_go_on(start: Start):
    with start(before=ENDLESS_SEARCH, PALAVER_SEARCH_TIMEOUT=PATIENCE) as server:
        client = Client(server)
        room, answers = client.thread(), list[Any]()

        def search() -> None:
            with suppress(OSError, HTTPException):  # the server is killed before it can answer
                answers.append(Client(server).ask("GET", "/api/search?q=harbour"))

        searchers = [threading.Thread(target=search, daemon=True) for _ in range(2)]
        for searcher in searchers:
            searcher.start()
        eventually(lambda: len(list(server.home.glob("searching-*"))) == 2)
        posts = [client.post(room, f"meanwhile {n}") for n in range(50)]
        assert answers == []
        assert [status for status, _ in posts] == [201] * 50
        kill(server)
        for searcher in searchers:
            searcher.join(PATIENCE)
