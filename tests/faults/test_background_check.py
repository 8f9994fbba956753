"""The background check: a running server notices damage, and says so everywhere an operator looks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from tests.conftest import ONE_ENGINE, Engine
from tests.faults.press import Client
from tests.faults.test_doctor import Place, fill, overwrite, pages_of, run_in_workspace
from tests.helpers import Server, eventually, start_server, started

from palaver.store.engines.sqlite import engine as engine_of_sqlite

PATIENCE = 60.0
OFTEN = "from palaver.operations.admin import background_check; background_check.LOOK_SECONDS = 0.05"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


@dataclass(frozen=True)
class Watched:
    """A server that checks its data all the time."""

    engine: Engine
    place: Place
    server: Server
    room: str

    @property
    def client(self) -> Client:
        return Client(self.server)

    def status(self) -> dict[str, Any]:
        check: dict[str, Any] = self.client.ask("GET", "/api/status")[1]["check"]
        return check

    def rounds(self, count: int = 1) -> dict[str, Any]:
        """Wait for rounds that begin from now on, and return the status after the last of them."""

        def is_later(last: str | None) -> bool:
            return bool(self.status()["last_round_at"] != last)

        for _ in range(count + 1):  # the round that runs now may have passed the damage
            eventually(partial(is_later, self.status()["last_round_at"]), PATIENCE)
        return self.status()

    def finding(self, part: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            return next((one for one in self.status()["findings"] if one["part"] == part), None)

        found: dict[str, Any] = eventually(look, PATIENCE)
        return found

    def run(self, *args: str) -> str:
        done = started(self.place.home, *args, PALAVER_DATABASE_URL=self.place.url, PALAVER_PORT="9")
        return done.stdout

    def log(self) -> str:
        return self.server.log.read_text("utf-8")


@contextmanager
def watched(engine: Engine, home: Path, every: str = "1s") -> Iterator[Watched]:
    place = Place(home, engine.fresh())
    room = fill(home, place.url)
    with start_server(home, before=OFTEN, PALAVER_DATABASE_URL=place.url, PALAVER_CHECK=every) as server:
        yield Watched(engine, place, server, room)


def run_in_server_database(watched: Watched, *statements: str) -> None:
    if watched.engine.name == "postgres":
        with psycopg.connect(watched.place.url, options="-c search_path=palaver") as connection:
            for statement in statements:
                connection.execute(statement.encode())
    else:
        raw = apsw.Connection(str(Path(watched.place.url.removeprefix("sqlite:///")) / "house.db"))
        raw.set_busy_timeout(10_000)
        for statement in statements:
            raw.execute(statement)
        raw.close()


def remove_message(watched: Watched) -> None:
    run_in_workspace(watched.engine, watched.place, "DELETE FROM passages WHERE position = 60")


def change_text(watched: Watched) -> None:
    run_in_workspace(
        watched.engine, watched.place, "UPDATE passages SET text = 'quite other words' WHERE position = 50"
    )


def remove_index_rows(watched: Watched) -> None:
    id = "passage_id" if watched.engine.name == "postgres" else "rowid"
    newest = "(SELECT max(id) FROM passages)"
    run_in_workspace(watched.engine, watched.place, f"DELETE FROM passage_index WHERE {id} = {newest}")


def break_audit_chain(watched: Watched) -> None:
    on = " ON audit" if watched.engine.name == "postgres" else ""
    run_in_server_database(
        watched, f"DROP TRIGGER audit_is_not_changed{on}", "UPDATE audit SET who = 'nobody' WHERE id = 1"
    )


def remove_transcript(watched: Watched) -> None:
    """Of two: without any transcript the server would not be ready."""
    turn = {"role": "user", "content": "another"}
    assert watched.client.ask("POST", "/api/v1/agents/bot/sessions/s-2/messages", turn)[0] == 201
    (watched.place.home / "sessions" / "default" / "bot" / "s-1.jsonl").unlink()


def remove_image(watched: Watched) -> None:
    with watched.server.client() as client:
        image = client.post("/api/upload/image", files={"file": ("a.png", PNG, "image/png")}).json()
        said = {"author": "ann", "content": f"![]({image['url']})"}
        assert client.post(f"/api/threads/{watched.room}/messages", json=said).status_code == 201
    (watched.place.home / image["url"].replace("/uploads/", "uploads/default/")).unlink()


DAMAGES: dict[str, tuple[Callable[[Watched], None], str, str]] = {
    "threads": (remove_message, "1 thread has fewer or more messages", "doctor --repair"),
    "texts": (change_text, "1 text is not as written", "doctor --repair"),
    "audit log": (break_audit_chain, "entry 1 of the audit log was changed", "backup"),
    "transcripts": (remove_transcript, "1 of 2 transcripts are missing", "backup"),
    "uploads": (remove_image, "1 image is missing", "backup"),
}
"""What is done to each part, what the finding says, and what it advises."""


def test_damage_is_shown_everywhere_and_logged_once(engine: Engine, tmp_path: Path):
    with watched(engine, tmp_path / "home") as here:
        here.run("token", "create", "--human", "ann")  # an entry of the audit log
        assert here.rounds()["findings"] == []
        for do_damage, *_ in DAMAGES.values():
            do_damage(here)
        for part, (_, says, advice) in DAMAGES.items():
            finding = here.finding(part)
            assert says in finding["says"]
            assert advice in finding["advice"]
        findings = sorted(here.rounds(2)["findings"], key=lambda one: one["part"])
        assert [one["part"] for one in findings] == sorted(DAMAGES)
        overview = here.client.ask("GET", "/api/overview")[1]
        assert sorted(overview["status"]["check"]["findings"], key=lambda one: one["part"]) == findings
        ready, metrics = here.client.ask("GET", "/readyz"), here.server.client().get("/metrics").text
        status, log = here.run("status"), here.log()
        for finding in findings:
            part, says = finding["part"], finding["says"]
            assert says in str(ready[1]["problems"])
            assert re.search(rf'^palaver_check_findings{{part="{part}"}} 1$', metrics, re.MULTILINE)
            assert f"✗ {part}: {says}" in status
            assert log.count(f"{part}: {says}") == 1
        assert (ready[0], ready[1]["status"]) == (200, "degraded")
        assert here.client.post(here.room, "still works")[0] == 201


def test_rows_that_are_removed_from_the_index_are_reported(engine: Engine, tmp_path: Path):
    with watched(engine, tmp_path / "home") as here:
        here.rounds()
        remove_index_rows(here)
        assert here.finding("search index")["says"]
        assert "degraded" in str(here.client.ask("GET", "/readyz"))


def test_a_damaged_page_is_found_while_the_server_runs(tmp_path: Path):
    engine = Engine("sqlite", lambda: f"sqlite:///{tmp_path / 'home'}", lambda: "")
    with watched(engine, tmp_path / "home") as here:
        here.rounds()
        # The page is in no cache of the check: each round opens the file again.
        overwrite(here.place.file, pages_of(here.place, "passages_native")[:1])
        finding = here.finding("tables")
        assert finding["says"].startswith("the table passages is damaged (")
        assert "Restore a backup" in finding["advice"]
        assert 'palaver_check_findings{part="tables"} 1' in here.server.client().get("/metrics").text


@pytest.mark.thorough
def test_a_damaged_search_index_is_found_and_the_next_round_after_the_repair_forgets_it(tmp_path: Path):
    engine = Engine("sqlite", lambda: f"sqlite:///{tmp_path / 'home'}", lambda: "")
    with watched(engine, tmp_path / "home") as here:
        here.rounds()
        raw = apsw.Connection(str(here.place.file))
        raw.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
        raw.set_busy_timeout(10_000)
        raw.execute("DELETE FROM passage_index_data WHERE id > 1000")
        raw.close()
        assert "passage_index" in here.finding("tables")["says"]
        assert "rebuilds the search index" in here.finding("tables")["advice"]
        here.run("doctor", "--repair")
        eventually(lambda: here.status()["findings"] == [], PATIENCE)
        assert here.client.ask("GET", "/readyz") == (200, {"status": "ready"})
        assert "no longer found" not in here.log()  # that is for PALAVER_LOG_LEVEL=info


def test_sound_data_has_no_findings(engine: Engine, tmp_path: Path):
    texts = [
        "東京タワー と 大阪",
        "naïve Ａ ﬀ İstanbul ß",
        "a" * 3000 + " b",
        "don't stop_here it's-fine C++ C# .NET node.js x@y.z",
        '"quoted" \'single\' "" * NEAR( AND OR NOT',
        "👍🏽 ❤️ \u200d\u0301 \u093f",
        " ".join(f"word{n}" for n in range(20_000)),
        "x",
        "…",
        "§scope ˢstem §d1",
    ]
    with watched(engine, tmp_path / "home") as here:
        for text in texts:
            assert here.client.post(here.room, text)[0] == 201
        removed = here.client.post(here.room, "removed by a person")[1]
        assert here.client.ask("DELETE", f"/api/messages/{removed['id']}")[0] == 200
        note = {"title": "in the trash", "content": "a note"}
        made = here.client.ask("POST", "/api/notes", note)[1]
        here.client.ask("DELETE", f"/api/notes/{made['id']}")
        assert here.rounds(3)["findings"] == []
        assert "WARNING" not in here.log().upper() or "check of" not in here.log()


@ONE_ENGINE
def test_data_is_checked_again_after_the_server_was_killed(engine: Engine, tmp_path: Path):
    with watched(engine, tmp_path / "home", every="1d") as here:
        first = eventually(lambda: here.status()["last_round_at"], PATIENCE)
        remove_message(here)
        here.server.process.kill()
        here.server.process.wait()
    with start_server(here.place.home, PALAVER_DATABASE_URL=here.place.url) as server:
        again = replace(here, server=server)
        assert again.finding("threads")
        eventually(lambda: again.status()["last_round_at"] > first, PATIENCE)


@ONE_ENGINE
def test_the_check_can_be_switched_off(engine: Engine, tmp_path: Path):
    place = Place(tmp_path / "home", engine.fresh())
    fill(place.home, place.url)
    with start_server(place.home, PALAVER_DATABASE_URL=place.url, PALAVER_CHECK="off") as server:
        assert Client(server).ask("GET", "/api/status")[1]["check"]["state"] == "off"
        done = started(place.home, "status", PALAVER_DATABASE_URL=place.url)
        assert "no server has checked this data yet" in done.stdout
        assert not (place.home / "checks" / "default.json").exists()


def test_the_quick_check_ends_when_the_file_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place = Place(tmp_path, "")
    fill(place.home)
    overwrite(place.file, pages_of(place, "passages")[2:3])
    assert "the table passages is damaged" in str(engine_of_sqlite.quick_problems_of(place.file))
    monkeypatch.setattr(engine_of_sqlite, "STEPS_BETWEEN_LOOKS", 10)
    assert "passages" not in str(engine_of_sqlite.quick_problems_of(place.file, lambda: True))


def test_a_setting_that_is_no_time_is_refused(tmp_path: Path):
    done = started(tmp_path, "config", PALAVER_CHECK="often")
    assert done.returncode == 2
    assert "6h" in done.stderr


@pytest.mark.thorough
def test_a_removed_protection_of_the_audit_log_is_reported_and_restored(engine: Engine, tmp_path: Path):
    on = " ON audit" if engine.name == "postgres" else ""
    with watched(engine, tmp_path / "home") as here:
        here.rounds()
        run_in_server_database(here, f"DROP TRIGGER audit_is_not_changed{on}")
        eventually(lambda: "the protection of the audit log" in str(here.client.ask("GET", "/readyz")), PATIENCE)
        here.rounds()
        with pytest.raises((apsw.Error, psycopg.Error), match="only grows"):
            run_in_server_database(here, "UPDATE audit SET who = 'nobody'")


@pytest.mark.thorough
def test_texts_of_an_earlier_version_get_their_checksums(engine: Engine, tmp_path: Path):
    with watched(engine, tmp_path / "home") as here:
        run_in_workspace(engine, here.place, "UPDATE passages SET checksum = NULL")
        here.rounds()
        change_text(here)
        assert here.finding("texts")["says"] == "1 text is not as written"
