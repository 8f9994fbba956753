"""The doctor: damage is seen and named; what can be mended is mended, and what is lost is said."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from tests.conftest import Engine
from tests.doors.test_cli import Terminal
from tests.faults.press import Client, tell
from tests.helpers import start_server
from tests.store.bus import Bus

from palaver.house import House
from palaver.operations import sessions, threads
from palaver.settings import Settings

MESSAGES = 120
SIDES = ("-wal", "-shm")


@dataclass(frozen=True)
class Place:
    """Where the data is."""

    home: Path
    url: str

    @property
    def file(self) -> Path:
        return self.home / "workspaces" / "default.db"

    def doctor(self, *more: str) -> tuple[int, list[dict[str, Any]]]:
        done = Terminal(self.home).run("doctor", "--json", *more, PALAVER_DATABASE_URL=self.url, PALAVER_PORT="9")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.output
        return done.exit_code, json.loads(done.stdout)

    def wrong(self, *more: str) -> tuple[int, str]:
        """The exit code, and what it finds wrong."""
        code, found = self.doctor(*more)
        return code, "\n".join(f"{f['what']}: {f['says']}" for f in found if f["is_well"] is False)

    def repaired(self) -> tuple[int, str]:
        code, found = self.doctor("--repair")
        return code, "\n".join(f"{f['what']}: {f['says']}" for f in found if f["what"].startswith("repair"))


@dataclass(frozen=True)
class Seen:
    """What somebody finds who opens the data."""

    texts: list[str]
    found: dict[str, int]
    turns: list[str]


def seen(place: Place, room: str | None = None, *words: str) -> Seen:
    """Look into it, and post something: that must work again."""

    async def look() -> Seen:
        house = House(Settings(home=place.home, database_url=place.url))
        bus = Bus(await house.open())
        thread = await bus.do(threads.get_thread, thread_id=room) if room else await bus.thread()
        texts = [message.content for message in await bus.messages(thread)]
        found = {word: len(await bus.found(word)) for word in words}
        hits = await bus.do(sessions.search_conversations, agent_id="bot", query="harbour", limit=50)
        after = await bus.post(thread, "afterwards")
        assert after.id in await bus.found("afterwards")
        await house.close()
        return Seen(texts, found, [hit.content for hit in hits.hits])

    return asyncio.run(look())


def fill(home: Path, url: str = "") -> str:
    """Some messages, and a session; returns the thread's id."""

    async def talk() -> str:
        house = House(Settings(home=home, database_url=url))
        bus = Bus(await house.open())
        thread = await bus.thread()
        filling = " ".join(f"w{n:x}" for n in range(150))
        for n in range(MESSAGES):
            message = await bus.post(thread, f"number{n} {filling}")
        await bus.react(message, "agree")
        for n in range(3):
            turn = {"role": "user", "content": f"turn{n} harbour"}
            await bus.do(sessions.record_turn, agent="bot", session="s-1", **turn)
        await house.close()
        return thread.id

    return asyncio.run(talk())


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    home = tmp_path_factory.mktemp("filled")
    return home, fill(home)


@pytest.fixture
def place(filled: tuple[Path, str], tmp_path: Path) -> Place:
    """A copy of it on SQLite, to be damaged."""
    shutil.copytree(filled[0], tmp_path / "home")
    return Place(tmp_path / "home", "")


def damage_index(place: Place) -> None:
    raw = apsw.Connection(str(place.file))
    raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    raw.execute("UPDATE passage_index_data SET block = zeroblob(length(block)) WHERE id > 1000")
    raw.close()


def pages_of(place: Place, table: str) -> list[int]:
    """The pages a table's leaves stand on, from 0."""
    raw = apsw.Connection(str(place.file))
    try:
        rows = raw.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY pageno", (table,))
        return [int(page) - 1 for (page,) in rows]
    finally:
        raw.close()


def overwrite(path: Path, pages: list[int]) -> None:
    with path.open("r+b") as file:
        for page in pages:
            file.seek(page * 4096)
            file.write(random.Random(page).randbytes(4096))


def test_a_damaged_index_is_made_anew_while_a_server_runs(place: Place, filled: tuple[Path, str]):
    damage_index(place)
    code, wrong = place.wrong()
    assert code == 1
    assert "workspace default:" in wrong
    with start_server(place.home) as server:
        code, said = place.repaired()
        assert code == 0, said
        assert "the search index was damaged; it is made anew" in said
        client = Client(server)
        messages = client.messages(filled[1])
        assert len(messages) == MESSAGES
        for n in (0, 57, MESSAGES - 1):
            assert client.found(f"number{n}") == [messages[n]["id"]]
        status, answer = client.post(filled[1], "afterwards")
        assert (status, answer["seq"]) == (201, MESSAGES + 1)
        assert client.found("afterwards") == [answer["id"]]
    assert place.wrong() == (0, "")
    assert "there was nothing to mend" in place.repaired()[1]


@pytest.mark.parametrize("where", ["in the middle", "at the end", "in an index", "half is gone"])
def test_of_a_damaged_file_all_that_can_be_read_is_saved(place: Place, filled: tuple[Path, str], where: str):
    if where == "half is gone":
        data = place.file.read_bytes()
        place.file.write_bytes(data[: len(data) // 2 + 100])
    else:
        pages = pages_of(place, "passages_native" if where == "in an index" else "passages")
        overwrite(place.file, pages[-1:] if where == "at the end" else pages[len(pages) // 2 :][:1])
    damaged = place.file.read_bytes()
    code, wrong = place.wrong()
    assert code == 1
    assert "workspace default:" in wrong
    code, said = place.repaired()
    (aside,) = (path for path in place.file.parent.glob("default.db.damaged-*") if path.suffix[-4:] not in SIDES)
    assert aside.name in said
    assert aside.read_bytes() == damaged  # nobody has touched it
    if where == "half is gone":
        assert code == 1
        assert "Rows lost: " in said
        assert 0 < len(seen(place, filled[1]).texts) < MESSAGES
        assert len(seen(place).turns) == 3  # the transcripts have them
    else:
        there = seen(place, filled[1], "number0", f"number{MESSAGES // 4}")
        kept = len(there.texts)
        tell(f"damage {where}: {kept} of {MESSAGES} messages saved")
        assert kept == MESSAGES if where == "in an index" else MESSAGES - 20 < kept < MESSAGES
        assert there.found == {"number0": 1, f"number{MESSAGES // 4}": 1}
        assert len(there.turns) == 3
        assert code == (0 if where == "in an index" else 1)
        assert ("Nothing is lost" in said) == (where == "in an index")
    must_be_sound(place)
    assert place.wrong() == (0, "")


def must_be_sound(place: Place) -> None:
    raw = apsw.Connection(str(place.file))
    try:
        assert raw.pragma("integrity_check") == "ok"
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
    finally:
        raw.close()


def test_a_file_that_cannot_be_read_at_all_is_put_aside_and_sessions_come_back(place: Place):
    place.file.write_bytes(random.Random(1).randbytes(100_000))
    code, said = place.repaired()
    assert code == 1
    assert "could not be read at all" in said
    assert "restore a backup" in said
    assert len(list(place.file.parent.glob("default.db.damaged-*"))) == 1
    assert len(seen(place).turns) == 3
    must_be_sound(place)


def test_a_damaged_list_of_workspaces_knows_them_again(place: Place):
    Terminal(place.home).ok("workspace", "create", "other")
    (place.home / "house.db").write_bytes(b"this is no database" * 1000)
    code, wrong = place.wrong()
    assert (code, "damaged" in wrong) == (1, True)
    code, said = place.repaired()
    assert code == 1
    assert "repair of house: the file could not be read at all" in said
    assert "other" in Terminal(place.home).ok("workspace", "list", "--json")
    assert place.wrong() == (0, "")


def test_a_damaged_file_is_not_mended_while_somebody_has_it_open(place: Place):
    pages = pages_of(place, "passages")
    with start_server(place.home):
        overwrite(place.file, pages[2:3])
        before = place.file.read_bytes()
        code, wrong = place.wrong("--repair")
        assert code == 1
        assert "Another palaver has this data open" in wrong
        assert place.file.read_bytes() == before
    assert list(place.file.parent.glob("*.damaged-*")) == []


# Transcripts


@pytest.mark.parametrize("damage", ["torn", "garbage", "another shape"])
def test_lines_that_cannot_be_read_are_set_aside_and_the_others_stay(place: Place, damage: str):
    path = place.home / "sessions" / "default" / "bot" / "s-1.jsonl"
    first, second, third = path.read_bytes().splitlines(keepends=True)
    bad = {"torn": third[:40], "garbage": b"\x00\xff\x10 nonsense\n", "another shape": b'{"id": 5}\n'}[damage]
    path.write_bytes(first + second + bad if damage == "torn" else first + bad + second + third)
    code, wrong = place.wrong()
    assert code == 1
    assert "1 line of the transcript bot/s-1.jsonl cannot be read" in wrong
    size = path.stat().st_size
    code, said = place.repaired()
    assert code == 1
    assert "1 line of bot/s-1.jsonl could not be read; kept in bot/s-1.damaged" in said
    aside = path.with_name("s-1.damaged")
    assert aside.read_bytes() == bad.rstrip(b"\n") + b"\n"
    assert aside.stat().st_mode & 0o077 == 0
    assert path.stat().st_size == size
    assert place.wrong() == (0, "")
    kept = [json.loads(line)["content"] for line in path.read_bytes().splitlines() if line.strip()]
    assert len(kept) == (2 if damage == "torn" else 3)
    assert sorted(seen(place).turns) == sorted(kept)
    # Deleting the session takes along what was set aside of it.
    Terminal(place.home).ok("session", "delete", "bot", "s-1")
    assert not aside.exists()


# Both engines


@pytest.mark.parametrize("damage", ["rows of the index", "turns of a session"])
def test_what_is_missing_in_the_index_is_seen_and_taken_in(engine: Engine, tmp_path: Path, damage: str):
    place = Place(tmp_path / "home", engine.fresh())
    room = fill(place.home, place.url)
    assert place.wrong() == (0, "")
    if damage == "rows of the index":
        statement = "DELETE FROM passage_index"
    else:
        statement = "DELETE FROM passages WHERE document_id IN (SELECT id FROM documents WHERE source = 'sessions')"
    if engine.name == "postgres":
        with psycopg.connect(place.url, options="-c search_path=workspace_default") as connection:
            connection.execute(statement.encode())
    else:
        raw = apsw.Connection(str(Path(place.url.removeprefix("sqlite:///")) / "workspaces" / "default.db"))
        raw.execute(statement)
        raw.close()
    code, wrong = place.wrong()
    assert code == 1
    assert "index" in wrong
    code, said = place.repaired()
    assert code == 0, said
    assert place.wrong() == (0, "")
    there = seen(place, room, "number7")
    assert len(there.texts) == MESSAGES
    assert there.found == {"number7": 1}
    assert len(there.turns) == 3


def test_an_index_postgresql_calls_invalid_is_made_anew(postgres: Any, tmp_path: Path):
    place = Place(tmp_path / "home", postgres())
    assert place.wrong() == (0, "")
    with psycopg.connect(place.url) as raw:
        raw.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'workspace_default.passages_native'::regclass"
        )
    code, wrong = place.wrong()
    assert code == 1
    assert "the index passages_native is not valid" in wrong
    code, said = place.repaired()
    assert code == 0
    assert "made the index passages_native anew" in said
    assert place.wrong() == (0, "")
