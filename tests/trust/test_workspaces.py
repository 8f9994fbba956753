"""A workspace that is deleted is gone for good: its people, its words, its files; the others do not notice."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from tests.conftest import Engine
from tests.doors.test_cli import Terminal
from tests.helpers import Server, Thread, eventually, listen, start_server, word
from tests.trust.people import Key, files_below, make_workspace


def bytes_of(server: Server, text: str) -> list[str]:
    """Where a word still stands: files of the data directory, tables of the database."""
    found = [path.name for path in files_below(server.home) if text.encode() in path.read_bytes()]
    url = server.env["PALAVER_DATABASE_URL"]
    if url.startswith("sqlite"):
        place = Path(url.removeprefix("sqlite:///"))
        return found + [path.name for path in files_below(place) if text.encode() in path.read_bytes()]
    with psycopg.connect(url) as raw:
        tables = raw.execute("SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname !~ '^pg_'")
        for (table,) in tables.fetchall():
            rows = raw.execute(f"SELECT count(*) FROM {table} t WHERE t::text LIKE %s".encode(), (f"%{text}%",))
            if next(iter(rows))[0]:
                found.append(table)
    return found


def test_a_deleted_workspace_leaves_nothing_and_nobody(engine: Engine, tmp_path: Path):
    unique = word()
    with start_server(tmp_path / "home", PALAVER_DATABASE_URL=engine.fresh(), PALAVER_AUTH="token") as server:
        make_workspace(server, "other")
        kept, gone = Key(server), Key(server, "other", name="bob")
        stays = Thread(kept.api).post("this stays")
        Thread(gone.api).post(f"said {unique}")
        turns = f"/api/v1/agents/robo/sessions/{unique}/messages"
        assert gone.api.post(turns, json={"role": "user", "content": unique}).status_code == 201
        png = b"\x89PNG\r\n\x1a\n" + unique.encode()
        assert gone.api.post("/api/upload/image", files={"file": ("a.png", png)}).status_code == 200
        assert len(bytes_of(server, unique)) >= 3
        terminal = Terminal(server.home)
        here = {"PALAVER_DATABASE_URL": server.env["PALAVER_DATABASE_URL"]}
        with listen(gone.api) as listener:
            asked = terminal.run("workspace", "delete", "other", input="n\n", **here)
            assert asked.exit_code != 0
            assert gone.api.get("/api/threads").status_code == 200
            terminal.ok("workspace", "delete", "other", "--yes", **here)
            assert gone.api.get("/api/threads").status_code == 401
            with pytest.raises(AssertionError, match="the stream has ended"):
                listener.next()
        assert bytes_of(server, unique) == []
        assert kept.api.get(f"/api/messages/{stays['id']}").json()["content"] == "this stays"
        assert terminal.json("workspace", "list", **here) == [{"name": "default"}]
        deeds = terminal.json("audit", "--kind", "workspace", **here)
        newest = (deeds[0]["what"], deeds[0]["workspace"], deeds[0]["facts"])
        assert newest == ("delete_workspace", "other", {"tokens": 1})
        assert terminal.run("workspace", "delete", "other", "--yes", **here).exit_code == 3
        assert terminal.run("workspace", "delete", "default", "--yes", **here).exit_code in (1, 2)

        # One of the same name begins empty, and what is said in it is kept.
        make_workspace(server, "other")
        again = Key(server, "other")
        assert again.api.get("/api/threads").json()["threads"] == []
        message = Thread(again.api).post("a new beginning")
        found = eventually(lambda: again.api.get("/api/search", params={"q": "beginning"}).json()["results"])
        assert [hit["message_id"] for hit in found] == [message["id"]]
        assert terminal.run("doctor", **here, PALAVER_PORT="9").exit_code == 0
