"""The disk: full, read-only, damaged. It is said plainly, and nothing that was stored is lost."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.faults.press import Client, must_be_whole
from tests.helpers import Server, environment, eventually, free_port, start_server, started
from tests.store.bus import Bus

from palaver.app import App
from palaver.settings import Settings

TEXT = " ".join(f"w{n:x}" for n in range(3000))


@contextmanager
def small_disk(place: Path, size: str = "4m", options: str = "") -> Iterator[Path]:
    """A file system of its own, where we are allowed to make one."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}{options}", "tmpfs", str(place)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], capture_output=True)


def post_until_refused(client: Client, room: str) -> tuple[list[dict[str, Any]], tuple[int, Any]]:
    kept: list[dict[str, Any]] = []
    for n in range(2000):
        status, answer = client.post(room, f"number{n} {TEXT}")
        if status != 201:
            return kept, (status, answer)
        kept.append(answer)
    raise AssertionError("the disk never got full")


def full_and_free_again(server: Server, make_room: Callable[[], Any]) -> str:
    """Fill it, look around, make room, go on. Returns what was said when it was full."""
    client = Client(server)
    room = client.thread()
    kept, (status, answer) = post_until_refused(client, room)
    assert status == 503, answer
    assert len(kept) > 3
    # It stays well: reading and searching go on, other changes are refused in the same words.
    assert [m["id"] for m in client.messages(room)] == [m["id"] for m in kept]
    assert client.found(f"number{len(kept) - 1}") == [kept[-1]["id"]]
    for _ in range(5):
        status, again = client.post(room, f"again {TEXT}")
        assert (status, again) == (503, answer)
    status, edited = client.ask("PUT", f"/api/messages/{kept[0]['id']}", {"content": f"edited {TEXT} {TEXT}"})
    assert status == 503, edited
    assert client.ask("GET", "/healthz")[0] == 200

    make_room()
    status, after = client.post(room, f"afterwards {TEXT}")
    assert status == 201, after
    assert after["seq"] == len(kept) + 1
    assert client.messages(room) == [*kept, after]
    assert client.found("afterwards") == [after["id"]]
    assert client.found("again") == client.found("edited") == []
    must_be_whole(server)
    assert "Traceback" not in server.said()
    return str(answer["detail"])


def test_on_a_full_disk_posts_are_refused_until_there_is_room(tmp_path: Path):
    with small_disk(tmp_path / "disk") as disk:
        (disk / "filler").write_bytes(b"\0" * 1_500_000)
        with start_server(tmp_path / "home", PALAVER_DATABASE_URL=f"sqlite:///{disk}") as server:
            said = full_and_free_again(server, (disk / "filler").unlink)
    assert "disk is full" in said
    assert "nothing was stored" in said.lower()


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can do this to a running process")
def test_when_the_file_may_not_grow_posts_are_refused_until_it_may(tmp_path: Path):
    with start_server(tmp_path / "home") as server:
        hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (2_000_000, hard))
        said = full_and_free_again(server, lambda: resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard)))
    assert "nothing was stored" in said.lower()
    assert str(tmp_path) not in said


# Refusing to start


def refused_start(home: Path, **env: Any) -> tuple[int, str]:
    """A server that must not start: its exit code and everything it said."""
    home.mkdir(parents=True, exist_ok=True)
    done = started(home, "serve", PALAVER_PORT=free_port(), **env)
    return done.returncode, done.stdout + done.stderr


@contextmanager
def read_only(home: Path) -> Iterator[Path]:
    if os.getuid():
        home.mkdir()
        home.chmod(0o555)
        try:
            yield home
        finally:
            home.chmod(0o755)
    else:
        with small_disk(home, options=",ro"):
            yield home


def test_a_data_directory_that_cannot_be_written_is_said_at_the_start(tmp_path: Path):
    with read_only(tmp_path / "home") as home:
        code, said = refused_start(home)
    assert code not in (0, -9)
    assert "data directory cannot be written" in said
    assert "Traceback" not in said


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A home with some messages in it, and their thread."""
    home = tmp_path_factory.mktemp("healthy")

    async def talk() -> str:
        app = App(Settings(home=home))
        bus = Bus(await app.open())
        thread = await bus.thread()
        for n in range(60):
            await bus.post(thread, f"number{n} {TEXT}")
        await app.close()
        return thread.id

    return home, asyncio.run(talk())


@pytest.fixture
def home(healthy: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    shutil.copytree(healthy[0], tmp_path / "home")
    return tmp_path / "home"


@pytest.mark.parametrize("file", ["house.db", "workspaces/default.db"])
@pytest.mark.parametrize("damage", ["overwritten", "cut"])
def test_a_damaged_database_is_refused_at_the_start(home: Path, file: str, damage: str):
    path = home / file
    whole, noise = path.read_bytes(), random.Random(1).randbytes(4096)
    path.write_bytes(noise + whole[4096:] if damage == "overwritten" else whole[: len(whole) // 2 + 100])
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink(missing_ok=True)

    code, said = refused_start(home)
    assert code not in (0, -9), said
    assert "damaged" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("seed", [1, 2])
def test_damage_in_the_middle_is_said_plainly_where_it_is_met(home: Path, healthy: tuple[Path, str], seed: int):
    """What cannot be seen at the start must not become an error nobody understands."""
    room = healthy[1]
    path = home / "workspaces" / "default.db"
    data = bytearray(path.read_bytes())
    pages = len(data) // 4096
    data[4096 * 60 : 4096 * (pages - 5)] = random.Random(seed).randbytes(4096 * (pages - 65))
    path.write_bytes(data)
    try:
        with start_server(home) as server:
            client = Client(server)
            answers = [
                client.ask("GET", f"/api/threads/{room}/messages?limit=1000"),
                client.ask("GET", "/api/search?q=w1"),
                client.post(room, TEXT),
            ]
            said = server.said()
    except AssertionError as refused:  # also fine: seen at the start
        assert "damaged" in str(refused)  # noqa: PT017
        return
    assert [status for status, _ in answers if status not in (200, 201, 503)] == [], answers
    assert 503 in [status for status, _ in answers]
    assert all("damaged" in answer["detail"] for status, answer in answers if status == 503)
    assert "Traceback" not in said


def test_starting_twice_on_one_port_is_said_plainly(tmp_path: Path):
    with start_server(tmp_path / "home") as server:
        done = subprocess.run(
            [sys.executable, "-m", "palaver", "serve"],
            env=environment(tmp_path / "other", PALAVER_PORT=server.port),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
        )
        assert done.returncode not in (0, -9)
        said = (done.stdout + done.stderr).decode()
        assert f"Cannot listen on 127.0.0.1:{server.port}" in said
        assert "Traceback" not in said
        assert eventually(server.is_ready)
