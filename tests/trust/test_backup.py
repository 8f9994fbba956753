"""A backup made while people write holds everything acknowledged before it, and comes back whole; damage is seen."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Engine
from tests.faults.press import Client, pressing
from tests.helpers import Server, Thread, eventually, start_server, started, word


def backed_up(server: Server, to: Path) -> None:
    done = started(server.home, "backup", str(to), PALAVER_DATABASE_URL=server.env["PALAVER_DATABASE_URL"])
    assert done.returncode == 0, done.stderr


def restored(home: Path, url: str, backup: Path) -> Any:
    return started(home, "restore", str(backup), PALAVER_DATABASE_URL=url)


def test_what_was_acknowledged_before_a_backup_comes_back_with_it(engine: Engine, tmp_path: Path):
    # One of each: how it is packed does not depend on where it comes from.
    backup = tmp_path / {"sqlite": "copy.tar.gz", "postgres": "copy.tar"}[engine.name]
    with start_server(tmp_path / "old", PALAVER_DATABASE_URL=engine.fresh(), PALAVER_CONTENT_FILTER="off") as server:
        rooms = [Client(server).thread() for _ in range(2)]
        with server.client() as api:
            unique = word()
            turns = f"/api/v1/agents/robo/sessions/{unique}/messages"
            assert api.post(turns, json={"role": "user", "content": unique}).status_code == 201
            note = api.post("/api/notes", json={"title": unique, "content": f"written {unique}"}).json()
            image = api.post("/api/upload/image", files={"file": ("a.png", b"\x89PNG\r\n\x1a\n" + b"x" * 99)}).json()
        done = started(server.home, "token", "create", PALAVER_DATABASE_URL=server.env["PALAVER_DATABASE_URL"])
        secret = done.stdout.strip()
        with pressing(server, rooms, clients=3) as promised:
            eventually(lambda: len(promised.messages) > 50)
            before = list(promised.messages)
            backed_up(server, backup)
            eventually(lambda: len(promised.messages) > len(before) + 20)
    assert backup.stat().st_mode & 0o077 == 0
    home, url = tmp_path / "new", engine.empty()
    again = restored(home, url, backup)
    assert again.returncode == 0, again.stderr
    with start_server(home, PALAVER_DATABASE_URL=url) as server, server.client() as api:
        client = Client(server)
        there = {m["id"]: m for room in rooms for m in client.messages(room)}
        for message in before:
            assert there[message["id"]] == message
        for room in rooms:
            assert [m["seq"] for m in client.messages(room)] == list(range(1, len(client.messages(room)) + 1))
        assert client.found(before[-1]["content"].split()[1]) == [before[-1]["id"]]
        status, answer = client.post(rooms[0], "life goes on")
        assert (status, answer["seq"]) == (201, len(client.messages(rooms[0])))
        assert api.get(f"/api/notes/{note['id']}").json() == note
        assert unique in api.get(turns).text
        found = api.post("/api/v1/conversations/search/all", json={"query": unique}).json()
        assert found["count"] == 1
        assert len(api.get(image["url"]).content) == 107
        assert api.get("/api/threads", headers={"authorization": f"Bearer {secret}"}).status_code == 200
        assert api.post("/api/media", json={"title": "m", "media_type": "video"}).status_code == 201
    doctor = started(home, "doctor", PALAVER_DATABASE_URL=url)
    assert doctor.returncode == 0, doctor.stdout


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home, `old`, and its backup, `copy.tar`."""
    folder = tmp_path_factory.mktemp("small")
    with start_server(folder / "old") as server, server.client() as api:
        Thread(api).post("hello")
        server.env["PALAVER_DATABASE_URL"] = ""
        backed_up(server, folder / "copy.tar")
    return folder


@pytest.fixture
def made(small: Path, tmp_path: Path) -> Path:
    """A small backup of the test's own, with the home it is of beside it."""
    shutil.copytree(small, tmp_path, dirs_exist_ok=True)
    return tmp_path / "copy.tar"


def test_a_backup_is_not_put_over_data(made: Path, tmp_path: Path):
    again = restored(tmp_path / "old", "", made)
    assert again.returncode == 1
    assert "There is data here already" in again.stderr
    assert "✓ workspace default" in started(tmp_path / "old", "doctor").stdout


def test_a_backup_does_not_overwrite_a_file(made: Path, tmp_path: Path):
    done = started(tmp_path / "old", "backup", str(made))
    assert done.returncode == 1
    assert "exists already" in done.stderr


@pytest.mark.parametrize("damage", ["flipped", "cut", "no backup", "a file taken out"])
def test_a_damaged_backup_is_refused_and_leaves_nothing_behind(made: Path, tmp_path: Path, damage: str):
    data = bytearray(made.read_bytes())
    if damage == "flipped":
        at = data.index(b"hello")
        data[at : at + 5] = b"HELLO"
    elif damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "no backup":
        data = bytearray(b"this is something else" * 1000)
    made.write_bytes(data)
    if damage == "a file taken out":
        with tarfile.open(made) as old, tarfile.open(tmp_path / "less.tar", "w") as new:
            for member in old.getmembers():
                if "workspaces" not in member.name:
                    new.addfile(member, old.extractfile(member))
        made = tmp_path / "less.tar"
    again = restored(tmp_path / "new", "", made)
    assert again.returncode != 0
    assert "Traceback" not in again.stderr
    assert "damaged" in again.stderr or "cannot be read" in again.stderr
    assert list((tmp_path / "new").rglob("*.db")) == []
    assert list((tmp_path / "new").glob(".restoring*")) == []


def test_a_backup_that_wants_out_of_its_folder_is_refused(tmp_path: Path):
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        about = tarfile.TarInfo("../../evil")
        tar.addfile(about)
    again = restored(tmp_path / "new", "", tmp_path / "evil.tar")
    assert again.returncode == 2
    assert not (tmp_path / "evil").exists()
