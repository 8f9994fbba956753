"""Deleted for good: after a purge no file of the data directory holds a byte of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from tests.helpers import Listener, Server, Thread, listen, start_server, started, word
from tests.trust.people import files_below


def holding(place: Path, *words: str) -> list[str]:
    """Which files hold any of these words, in whatever case."""
    found = []
    for path in files_below(place):
        try:
            data = path.read_bytes().lower()
        except FileNotFoundError:  # a database server makes and removes files as it likes
            continue
        found += [f"{path.relative_to(place)} {text}" for text in words if text.encode() in data]
    return sorted(found)


@pytest.fixture
def words() -> dict[str, str]:
    names = ("message", "edited", "topic", "turn", "note", "prompt", "chat", "label", "metadata", "title")
    return {name: word(name) for name in names}


def write_everything(server: Server, words: dict[str, str]) -> list[str]:
    """Something of everything; returns the addresses to delete."""
    with server.client() as api:
        listening: Listener
        with listen(api) as listening:
            thread = Thread(api, f"about {words['topic']}")
            for n in range(30):
                Thread(api, f"kept {word()}").post(f"something that stays {n} {words['message'][:7]}")
            message = thread.post(f"said {words['message']}", metadata={"a": words["metadata"]})
            api.put(f"/api/messages/{message['id']}", json={"content": f"now {words['edited']}"})
            api.post(f"/api/messages/{message['id']}/reactions", json={"reaction": words["label"]})
            turns = f"/api/v1/agents/robo/sessions/{words['title']}"
            assert api.post(f"{turns}/messages", json={"role": "user", "content": words["turn"]}).status_code == 201
            note = api.post("/api/notes", json={"title": words["note"], "content": f"x {words['note']}"}).json()
            prompt = api.post("/api/prompts", json={"name": words["prompt"], "system_prompt": words["prompt"]}).json()
            chat = api.post("/api/chats", json={"title": words["chat"]}).json()
            api.post(f"/api/chats/{chat['id']}/messages", json={"sender": "me", "content": words["chat"]})
            assert listening.next()
        return [
            f"/api/messages/{message['id']}",
            f"{thread.path}?confirm=true",
            turns,
            f"/api/notes/{note['id']}",
            f"/api/prompts/{prompt['id']}",
            f"/api/chats/{chat['id']}",
        ]


@pytest.mark.parametrize("is_running", [True, False])
def test_after_a_purge_no_file_holds_a_byte_of_what_was_deleted(
    tmp_path: Path, words: dict[str, str], is_running: bool
):
    home = tmp_path / "home"
    with start_server(tmp_path / "log", PALAVER_HOME=home) as server:
        addresses = write_everything(server, words)
        assert len(holding(home, *words.values())) > 10
        with server.client() as api:
            for address in addresses:
                answer = api.delete(address)
                assert answer.status_code == 200, answer.text
        if is_running:
            done = started(home, "purge", "--yes")
            assert done.returncode == 0, done.stderr
            assert [line for line in holding(home, *words.values()) if "deleted.jsonl" not in line] == []
            with server.client() as api:
                assert Thread(api).post("life goes on")["seq"] == 1
                assert len(api.get("/api/search", params={"q": "stays", "limit": 50}).json()["results"]) == 30
    if not is_running:
        assert started(home, "purge", "--yes").returncode == 0
    left = holding(home, *words.values())
    # The name of a deleted session stays on its tombstone: without it the session could come back.
    assert [line for line in left if "deleted.jsonl" not in line] == []
    assert started(home, "doctor").returncode == 0
    kept = started(home, "search", "something", "--json").stdout
    assert kept.count("something") >= 10


@pytest.mark.thorough
def test_after_a_purge_no_table_of_postgresql_holds_a_byte_of_what_was_deleted(
    postgres: Callable[[], str], tmp_path: Path, words: dict[str, str]
):
    """Tables, indexes and statistics, down to the files they lie in. The server's own log is not ours to write anew."""
    home, url = tmp_path / "home", postgres()
    with start_server(tmp_path / "log", PALAVER_HOME=home, PALAVER_DATABASE_URL=url) as server:
        addresses = write_everything(server, words)
        with psycopg.connect(url, autocommit=True) as raw:
            raw.execute("ANALYZE")  # as the server does by itself now and then: it keeps some of what it sees
            raw.execute("CHECKPOINT")
            row = raw.execute(
                "SELECT current_setting('data_directory'), oid FROM pg_database WHERE datname = current_database()"
            ).fetchone()
        assert row is not None
        files = Path(row[0]) / "base" / str(row[1])
        assert len({line.split()[1] for line in holding(files, *words.values())}) >= len(words) - 1
        with server.client() as api:
            for address in addresses:
                assert api.delete(address).status_code == 200
        done = started(home, "purge", "--yes", PALAVER_DATABASE_URL=url)
        assert done.returncode == 0, done.stderr
        with psycopg.connect(url, autocommit=True) as raw:
            raw.execute("CHECKPOINT")
        # The name of a deleted session stays on its tombstone: without it the session could come back.
        assert [line for line in holding(home, *words.values()) if "deleted.jsonl" not in line] == []
        assert holding(files, *words.values()) == []
        with server.client() as api:
            assert Thread(api).post("life goes on")["seq"] == 1
            assert len(api.get("/api/search", params={"q": "stays", "limit": 50}).json()["results"]) == 30
    assert started(home, "doctor", PALAVER_DATABASE_URL=url).returncode == 0


def test_images_nothing_shows_any_more_are_taken_away(tmp_path: Path):
    with start_server(tmp_path / "home") as server, server.client() as api:
        images = [
            api.post("/api/upload/image", files={"file": ("a.png", b"\x89PNG\r\n\x1a\n" + bytes([n]))}).json()["url"]
            for n in range(3)
        ]
        thread = Thread(api)
        thread.post(f"look ![]({images[0]})")
        gone = thread.post("look", images=[{"url": images[1]}])
        api.delete(f"/api/messages/{gone['id']}")
        folder = tmp_path / "home" / "uploads" / "default"
        for url in images[:2]:
            os.utime(folder / Path(url).name, (1, 1))
        assert started(server.home, "purge", "--yes").returncode == 0
        assert [api.get(url).status_code for url in images] == [200, 404, 200]


def test_what_is_in_the_trash_can_be_restored_until_it_is_purged(tmp_path: Path):
    with start_server(tmp_path / "home") as server, server.client() as api:
        notes = [api.post("/api/notes", json={"title": word(), "content": "x"}).json()["id"] for _ in range(2)]
        for note in notes:
            api.delete(f"/api/notes/{note}")
        assert api.post(f"/api/notes/{notes[0]}/restore", json={}).status_code == 200
        assert started(server.home, "purge", "--yes").returncode == 0
        assert api.get(f"/api/notes/{notes[0]}").status_code == 200
        assert api.post(f"/api/notes/{notes[1]}/restore", json={}).status_code == 404


def test_purging_asks_first(tmp_path: Path):
    done = started(tmp_path, "purge")
    assert done.returncode != 0
    assert "cannot be restored" in done.stderr
