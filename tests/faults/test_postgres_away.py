"""PostgreSQL drops connections and is restarted: nothing acknowledged is lost, and the server finds back by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.conftest import postgres_server, stop_at_once
from tests.faults.press import IS_LONG, Client, must_be_whole, must_keep_its_promises, pressing, tell
from tests.faults.streams import Frame, Stream
from tests.helpers import PATIENCE, eventually, start_server

DROPS, RESTARTS = (30, 8) if IS_LONG else (3, 1)


@pytest.fixture(scope="module")
def fragile() -> Iterator[Any]:
    """A PostgreSQL of our own, to be stopped and started."""
    with postgres_server() as server:
        yield server


def drop_everybody(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as raw:
        rows = raw.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ).fetchall()
    return len(rows)


def test_dropped_connections_and_restarts_lose_nothing(fragile: Any, tmp_path: Path):
    url = fragile.get_uri()
    with start_server(tmp_path / "home", PALAVER_DATABASE_URL=url, PALAVER_SEARCH_TIMEOUT=2) as server:
        client = Client(server)
        rooms = [client.thread() for _ in range(3)]
        heard: list[Frame] = []
        stream = Stream(server, "/events")

        def hear() -> None:
            while frames := stream.next():
                heard.extend(frames)

        listening = threading.Thread(target=hear, daemon=True)
        listening.start()
        away: list[float] = []
        with pressing(server, rooms, clients=4, most=200_000) as promised:

            def more(count: int = 30) -> None:
                enough = len(promised.messages) + count
                eventually(lambda: len(promised.messages) >= enough, PATIENCE * 2)

            more()
            for _ in range(DROPS):
                assert drop_everybody(url) >= 1
                more()
            for _ in range(RESTARTS):
                stop_at_once(fragile)
                # Readiness tells the truth meanwhile; the process itself is well.
                answer = httpx.get(f"{server.url}/readyz", timeout=PATIENCE)
                assert answer.status_code == 503, answer.text
                assert httpx.get(f"{server.url}/healthz", timeout=PATIENCE).status_code == 200
                fragile.ensure_postgres_running()
                began = time.monotonic()
                eventually(server.is_ready, PATIENCE * 2)
                away.append(time.monotonic() - began)
                more()
        assert promised.broken == 0
        assert {status for status, _ in promised.refused} <= {503}
        must_keep_its_promises(server, rooms, promised, searches=20)
        must_be_whole(server)
        # Who listened all the time heard everything once.
        last = Client(server).post(rooms[0], "the last word")[1]["id"]
        eventually(lambda: any(frame.data.get("id") == last for frame in list(heard)), PATIENCE)
        said = server.said()
    listening.join(PATIENCE)
    assert [frame.id for frame in heard] == list(range(heard[0].id, heard[0].id + len(heard)))
    assert {m["id"] for m in promised.messages} <= {frame.data.get("id") for frame in heard}
    assert "Traceback" not in said
    tell(
        f"{len(promised.messages)} acknowledged over {DROPS} drops and {RESTARTS} restarts, none lost; "
        f"{len(promised.refused)} refused; ready again {max(away):.1f} s after PostgreSQL"
    )
