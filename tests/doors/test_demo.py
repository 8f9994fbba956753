"""The story `palaver demo` tells: to look around in, and to take pictures of."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.conftest import Engine
from tests.helpers import start_server, started


def demo(home: Path, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    return started(home, "demo", *options, PALAVER_DATABASE_URL=url)


def test_it_fills_every_shelf_once_and_only_an_empty_place(engine: Engine, tmp_path: Path):
    url = engine.empty()
    told = demo(tmp_path, url)
    assert told.returncode == 0, told.stderr
    assert "25 messages in 5 threads" in told.stdout
    again = demo(tmp_path, url)
    assert (again.returncode, "--anyway" in again.stderr) == (2, True)
    with start_server(tmp_path, PALAVER_DATABASE_URL=url) as server, server.client() as api:
        seen = api.get("/api/overview?days=30").json()
        assert {source for source, kept in seen["documents"].items() if kept} == {
            "bus", "sessions", "archive", "notes", "media", "chats", "prompts", "characters",
        }  # fmt: skip
        assert len({day["day"] for day in seen["days"]}) > 15
        assert {one["name"] for one in seen["speakers"]} >= {"Rook", "Wren", "Kite", "Anna", "Ben", "Mia"}
        found = api.get("/api/search?q=jitter").json()["results"]
        assert [hit["thread_topic"] for hit in found] == ["Lantern 2.4: what is left"]
        threads = api.get("/api/threads/glance").json()["threads"]
        times = [one["last_message"]["created_at"] for one in threads]
        assert times == sorted(times, reverse=True)
