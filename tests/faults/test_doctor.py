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
from tests.faults.press import Client, kill, tell
from tests.helpers import eventually, start_server
from tests.store.bus import Bus

from palaver.app import App
from palaver.operations.archive import conversations
from palaver.operations.bus import threads
from palaver.operations.sessions import recording, searching
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
        app = App(Settings(home=place.home, database_url=place.url))
        bus = Bus(await app.open())
        thread = await bus.do(threads.get_thread, thread_id=room) if room else await bus.thread()
        texts = [message.content for message in await bus.messages(thread)]
        found = {word: len(await bus.found(word)) for word in words}
        hits = await bus.do(searching.search_conversations, agent_id="bot", query="harbour", limit=50)
        after = await bus.post(thread, "afterwards")
        assert after.id in await bus.found("afterwards")
        await app.close()
        return Seen(texts, found, [hit.content for hit in hits.hits])

    return asyncio.run(look())


def fill(home: Path, url: str = "") -> str:
    """Some messages, and a session; returns the thread's id."""

    async def talk() -> str:
        app = App(Settings(home=home, database_url=url))
        bus = Bus(await app.open())
        thread = await bus.thread()
        filling = " ".join(f"w{n:x}" for n in range(150))
        for n in range(MESSAGES):
            message = await bus.post(thread, f"number{n} {filling}")
        await bus.react(message, "agree")
        for n in range(3):
            turn = {"role": "user", "content": f"turn{n} harbour"}
            await bus.do(recording.record_turn, agent="bot", session="s-1", **turn)
        await app.close()
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
        assert "the search index was damaged; it is rebuilt" in said
        client = Client(server)
        messages = client.messages(filled[1])
        assert len(messages) == MESSAGES
        for n in (0, 57, MESSAGES - 1):
            assert client.found(f"number{n}") == [messages[n]["id"]]
        status, answer = client.post(filled[1], "afterwards")
        assert (status, answer["seq"]) == (201, MESSAGES + 1)
        assert client.found("afterwards") == [answer["id"]]
    assert place.wrong() == (0, "")
    assert "nothing to repair" in place.repaired()[1]


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
        assert ("No row is lost, and every text is as it was" in said) == (where == "in an index")
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
    assert "repair of the server database: the file could not be read at all" in said
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
    content = json.loads(third)["content"]
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
    if damage == "torn":  # the index had what was torn
        assert "wrote 1 turn to bot/s-1.jsonl again" in said
    else:
        assert path.stat().st_size == size
    assert place.wrong() == (0, "")
    kept = [json.loads(line)["content"] for line in path.read_bytes().splitlines() if line.strip()]
    assert (len(kept), kept[-1]) == (3, content)
    assert sorted(seen(place).turns) == sorted(kept)
    # Deleting the session takes along what was set aside of it.
    Terminal(place.home).ok("session", "delete", "bot", "s-1")
    assert not aside.exists()


# Something is missing


def ready(server: Any) -> tuple[int, dict[str, Any]]:
    with server.client() as client:
        answer = client.get("/readyz")
        return answer.status_code, answer.json()


def verified(place: Place) -> tuple[int, str]:
    done = Terminal(place.home).run("verify", PALAVER_DATABASE_URL=place.url)
    return done.exit_code, done.stderr


def test_missing_transcripts_are_told_and_their_turns_stay(engine: Engine, tmp_path: Path):
    place = Place(tmp_path / "home", engine.fresh())
    fill(place.home, place.url)
    shutil.move(place.home / "sessions", tmp_path / "elsewhere")
    for code, said in (place.wrong(), verified(place), place.wrong("--repair")):
        assert code == 1
        assert "3 turns are in the index and in no transcript" in said
    assert "→ Restore the files" in Terminal(place.home).run("doctor", PALAVER_DATABASE_URL=place.url).stdout
    done = Terminal(place.home).run("reindex", PALAVER_DATABASE_URL=place.url)
    assert (done.exit_code, "They were kept in the index." in done.stderr) == (0, True)
    assert len(seen(place).turns) == 3
    shutil.move(tmp_path / "elsewhere", place.home / "sessions")
    assert place.wrong() == (0, "")
    assert verified(place)[0] == 0


def test_turns_that_are_discarded_are_kept_in_a_folder(place: Place):
    shutil.move(place.home / "sessions", place.home.parent / "elsewhere")
    assert Terminal(place.home).run("doctor", "--discard-missing").exit_code == 2
    code, said = place.wrong("--repair", "--discard-missing")
    assert (code, said) == (0, "")
    assert seen(place).turns == []
    (file,) = (place.home / "discarded" / "default").glob("*/bot/s-1.jsonl")
    assert [json.loads(line)["content"] for line in file.read_bytes().splitlines()] == [
        f"turn{n} harbour" for n in range(3)
    ]
    # It has the form of transcripts: put back, they are found again.
    shutil.move(file.parent.parent, place.home / "sessions" / "default")
    assert len(seen(place).turns) == 3


@pytest.mark.thorough
def test_a_lost_server_database_is_reported_and_its_workspaces_are_listed_again(engine: Engine, tmp_path: Path):
    place = Place(tmp_path / "home", engine.fresh())
    terminal = Terminal(place.home)
    fill(place.home, place.url)
    url = {"PALAVER_DATABASE_URL": place.url}
    assert terminal.run("workspace", "create", "other", **url).exit_code == 0
    assert terminal.run("token", "create", "--human", "ann", **url).exit_code == 0
    if engine.name == "postgres":
        with psycopg.connect(place.url) as raw:
            raw.execute("DROP SCHEMA palaver CASCADE")
    else:
        (Path(place.url.removeprefix("sqlite:///")) / "house.db").unlink()
    assert "other" in terminal.run("workspace", "list", **url).stdout
    for code, said in (place.wrong(), verified(place)):
        assert code == 1
        assert "the tokens and the audit log were missing" in said
    with start_server(place.home, PALAVER_DATABASE_URL=place.url) as server:
        status, answer = ready(server)
        assert (status, answer["status"]) == (200, "degraded")
        assert "the tokens and the audit log were missing" in answer["problems"][0]
    done = terminal.run("backup", str(tmp_path / "copy.tar"), **url)
    assert "2 workspaces" in done.stderr
    code, said = place.repaired()
    assert (code, "the audit log were missing" in said) == (1, True)
    assert place.wrong() == (0, "")  # it was said, and is known now


def test_a_lost_workspace_is_told(place: Place):
    Terminal(place.home).ok("workspace", "create", "other")
    (place.home / "workspaces" / "other.db").unlink()
    code, wrong = place.wrong()
    assert (code, "workspace other: its database is missing" in wrong) == (1, True)
    Terminal(place.home).ok("thread", "list", "--workspace", "other")
    code, wrong = place.wrong()
    assert (code, "the database of workspace other was missing" in wrong) == (1, True)


def test_a_workspace_that_is_not_in_the_list_is_put_there(place: Place):
    Terminal(place.home).ok("workspace", "create", "other")
    raw = apsw.Connection(str(place.home / "house.db"))
    raw.execute("DELETE FROM workspaces WHERE name = 'other'")
    raw.close()
    code, wrong = place.wrong()
    assert (code, "workspace other has data, but is not in the list" in wrong) == (1, True)
    assert "the workspace other was missing in the list" in place.repaired()[1]
    assert place.wrong() == (0, "")


@pytest.mark.parametrize("file", ["house.db", "workspaces/default.db"])
def test_a_missing_log_is_told(place: Place, file: str):
    path = place.home / file
    path.with_name(path.name + "-shm").touch()  # somebody did not end properly, and took the log along
    code, wrong = place.wrong()
    assert (code, "-wal" in wrong) == (1, True)
    code, stderr = verified(place)
    assert (code, "-wal" in stderr) == (1, True)
    assert place.repaired()[0] == 1
    assert place.wrong() == (0, "")


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_log_that_went_with_its_index_after_a_crash_is_told(place: Place, filled: tuple[Path, str], is_lost: bool):
    """Without the log, its newest commits are gone. A log that another program has copied into the file is not."""
    with start_server(place.home) as server:
        Client(server).post(filled[1], "the last word before the crash")
        kill(server)
    if is_lost:
        for side in SIDES:
            place.file.with_name(place.file.name + side).unlink()
    else:
        raw = apsw.Connection(str(place.file))
        raw.execute("SELECT count(*) FROM passages").fetchall()
        raw.close()
        assert not place.file.with_name(place.file.name + "-wal").exists()
    code, wrong = place.wrong()
    assert (code, "-wal" in wrong) == ((1, True) if is_lost else (0, False))
    assert place.repaired()[0] == (1 if is_lost else 0)
    assert place.wrong() == (0, "")
    assert [path.name for path in place.file.parent.glob("*.db-*")] == []


def test_missing_images_are_told(place: Place):
    with start_server(place.home) as server, server.client() as client:
        png = b"\x89PNG\r\n\x1a\n" + bytes(100)
        image = client.post("/api/upload/image", files={"file": ("a.png", png, "image/png")}).json()
        thread = client.post("/api/threads", json={"topic": "pictures"}).json()
        client.post(f"/api/threads/{thread['id']}/messages", json={"author": "ann", "content": f"![]({image['url']})"})
        assert ready(server) == (200, {"status": "ready"})
    assert place.wrong() == (0, "")
    shutil.rmtree(place.home / "uploads")
    for code, said in (place.wrong(), verified(place), place.wrong("--repair")):
        assert code == 1
        assert "1 image is missing in the folder 'uploads'" in said
    with start_server(place.home) as server:
        eventually(lambda: ready(server)[1]["status"] == "degraded")


def test_a_server_tells_what_is_taken_away_while_it_runs(place: Place):
    with start_server(place.home) as server:
        assert ready(server) == (200, {"status": "ready"})
        shutil.move(place.home / "sessions", place.home.parent / "elsewhere")
        status, answer = ready(server)
        assert (status, answer["problems"]) == (503, ["1 of 1 transcripts are missing"])
        shutil.move(place.home.parent / "elsewhere", place.home / "sessions")
        assert ready(server) == (200, {"status": "ready"})
        for name in ("house.db", "workspaces/default.db-wal"):
            path = place.home / name
            path.rename(path.with_name("away"))
            status, answer = ready(server)
            assert (status, "was removed while it was open" in answer["detail"]) == (503, True)
            path.with_name("away").rename(path)


def test_a_changed_text_is_named_and_taken_back_from_a_good_copy(engine: Engine, tmp_path: Path):
    """A bit that flips in a text leaves the file sound for the database itself."""
    place = Place(tmp_path / "home", engine.fresh())
    fill(place.home, place.url)
    for before, after in (("number7 ", "nunber7 "), ("number8 ", "nunber8 "), ("turn1 ", "turm1 ")):
        run_in_workspace(engine, place, f"UPDATE passages SET text = replace(text, '{before}', '{after}')")
    run_in_workspace(engine, place, "UPDATE events SET payload = replace(payload, 'number8 ', 'nunber8 ')")
    for code, said in (place.wrong(), verified(place)):
        assert code == 1
        assert "3 texts are not as written" in said
        assert "bus " in said
        assert "sessions " in said
    code, said = place.repaired()
    assert code == 1
    assert "3 texts are damaged on the disk; a good copy was found of 2. The others stay" in said
    assert place.wrong() == (0, "")
    there = seen(place, None, "nunber7", "number7", "nunber8", "number8")
    assert there.found == {"nunber7": 0, "number7": 1, "nunber8": 1, "number8": 0}
    assert sorted(there.turns) == [f"turn{n} harbour" for n in range(3)]


def test_flipped_bits_in_a_file_are_never_called_harmless(place: Place, filled: tuple[Path, str]):
    """Bytes of texts and a page of an index are damaged. Some texts are no UTF-8 any more."""
    overwrite(place.file, pages_of(place, "passages_native")[:1])
    raw = place.file.read_bytes()
    for n in (11, 12, 13, 14, 15):
        raw = raw.replace(
            f"number{n} ".encode(), f"num\xffer{n} ".encode("latin-1") if n == 15 else f"nunber{n} ".encode()
        )
    place.file.write_bytes(raw)
    code, said = place.repaired()
    assert code == 1
    assert "every text is as it was" not in said
    assert "texts are damaged" in said
    assert place.wrong() == (0, "")
    texts = seen(place, filled[1]).texts
    assert len(texts) >= MESSAGES - 1


def test_messages_that_are_gone_are_told(engine: Engine, tmp_path: Path):
    place = Place(tmp_path / "home", engine.fresh())
    fill(place.home, place.url)
    gone = "SELECT id FROM passages WHERE text LIKE 'number7 %'"
    if engine.name == "sqlite":
        run_in_workspace(engine, place, f"DELETE FROM passage_index WHERE rowid IN ({gone})")
    run_in_workspace(engine, place, f"DELETE FROM passages WHERE id IN ({gone})")
    for code, said in (place.wrong(), verified(place)):
        assert code == 1
        assert "1 thread has fewer or more messages than were posted" in said


# The tables of the index

INDEX_TABLES = {
    "sqlite": ["passage_index", "passage_terms", "passage_trigrams", "passage_threes", "passages_native", "vectors"],
    "postgres": ["passage_index", "passage_trigrams", "passage_runs", "passage_index_words", "transcript_marks"],
}


@pytest.mark.thorough
@pytest.mark.parametrize("gone", ["each", "all"])
def test_tables_of_the_index_that_are_missing_are_made_again(engine: Engine, tmp_path: Path, gone: str):
    place = Place(tmp_path / "home", engine.fresh())
    room = fill(place.home, place.url)
    conversation = tmp_path / "conversations.json"
    conversation.write_text(json.dumps([CONVERSATION]))
    assert Terminal(place.home).run("import", str(conversation), PALAVER_DATABASE_URL=place.url).exit_code == 0
    assert place.wrong() == (0, "")
    names = INDEX_TABLES[engine.name]
    for some in [[name] for name in names] if gone == "each" else [names]:
        drop(engine, place, some)
        for code, said in (place.wrong(), verified(place)):
            assert code == 1
            assert f"tables or indexes are missing: {sorted(some)[0]}" in said
        code, said = place.repaired()
        assert (code, "recreated missing tables or indexes" in said) == (0, True), said
        assert place.wrong() == (0, "")
    drop(engine, place, names)
    assert Terminal(place.home).run("reindex", PALAVER_DATABASE_URL=place.url).exit_code == 0
    assert place.wrong() == (0, "")
    drop(engine, place, names)
    there = seen(place, room, "number7")  # opening it is enough
    assert (there.found, len(there.turns)) == ({"number7": 1}, 3)
    assert "hourglass" in part_found(place, "ourglas")


def test_a_server_says_that_its_index_is_gone(engine: Engine, tmp_path: Path):
    place = Place(tmp_path / "home", engine.fresh())
    room = fill(place.home, place.url)
    # Otherwise the server would rebuild the index meanwhile.
    never = "from palaver.operations.admin import maintenance; maintenance.SWEEPS_PER_INDEX_CHECK = 10**9"
    with start_server(place.home, before=never, PALAVER_DATABASE_URL=place.url) as server, server.client() as client:
        drop(engine, place, ["passage_index"])
        status, said = ready(server)
        assert status == 503
        assert "tables or indexes are missing in the database: passage_index" in said["detail"]
        answer = client.get("/api/search", params={"q": "number7"})
        assert (answer.status_code, "palaver doctor" in answer.json()["detail"]) == (503, True)
        answer = client.post(f"/api/threads/{room}/messages", json={"author": "ann", "content": "not now"})
        assert answer.status_code == 503
        assert Terminal(place.home).run("reindex", PALAVER_DATABASE_URL=place.url).exit_code == 0
        assert ready(server)[0] == 200
        assert len(client.get("/api/search", params={"q": "number7"}).json()["results"]) == 1


CONVERSATION = {
    "id": "c-1",
    "title": "Time",
    "create_time": 1700000000,
    "mapping": {
        "a": {
            "id": "a",
            "parent": None,
            "children": [],
            "message": {
                "id": "m-1",
                "author": {"role": "user"},
                "create_time": 1700000000,
                "content": {"content_type": "text", "parts": ["An hourglass on the shelf"]},
            },
        }
    },
    "current_node": "a",
}


def part_found(place: Place, part: str) -> str:
    """What conversation_search shows for a part of a word."""

    async def look() -> str:
        app = App(Settings(home=place.home, database_url=place.url))
        try:
            return str(await Bus(await app.open()).do(conversations.search_archive, query=part))
        finally:
            await app.close()

    return asyncio.run(look())


def drop(engine: Engine, place: Place, names: list[str]) -> None:
    for name in names:
        kind = "INDEX" if name in ("passages_native", "passage_index_words") else "TABLE"
        run_in_workspace(engine, place, f"DROP {kind} IF EXISTS {name}")


def run_in_workspace(engine: Engine, place: Place, statement: str) -> None:
    if engine.name == "postgres":
        with psycopg.connect(place.url, options="-c search_path=workspace_default") as connection:
            connection.execute(statement.encode())
    else:
        raw = apsw.Connection(str(Path(place.url.removeprefix("sqlite:///")) / "workspaces" / "default.db"))
        raw.set_busy_timeout(10_000)
        raw.execute(statement)
        raw.close()


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
    run_in_workspace(engine, place, statement)
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


@pytest.mark.thorough
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
    assert "rebuilt the index passages_native" in said
    assert place.wrong() == (0, "")


def test_the_doctor_looks_at_postgresql(postgres: Any, tmp_path: Path):
    place = Place(tmp_path / "home", postgres())
    _, found = place.doctor()
    assert [finding["is_well"] for finding in found if finding["what"] == "PostgreSQL"] == [True]
    away = Place(tmp_path / "home", "postgresql://nobody@127.0.0.1:9/none")
    code, wrong = away.wrong()
    assert (code, "PostgreSQL: PostgreSQL is not reachable" in wrong) == (1, True)


def test_the_doctor_says_when_postgresql_has_little_memory_for_the_search_index(postgres: Any, tmp_path: Path):
    place = Place(tmp_path / "home", postgres())
    _, found = place.doctor()
    assert "search speed" not in {finding["what"] for finding in found}
    with psycopg.connect(place.url) as raw:
        large = "UPDATE pg_class SET relpages = 200000 WHERE oid = 'workspace_default.passage_index'::regclass"
        raw.execute(large)
    code, found = place.doctor()
    (slow,) = (finding for finding in found if finding["what"] == "search speed")
    assert (code, slow["is_well"]) == (0, None)
    assert "the search index 1,56" in slow["says"]
    assert "Set shared_buffers to a quarter of the memory" in slow["advice"]
