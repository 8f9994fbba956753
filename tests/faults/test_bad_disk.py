"""A disk that fails or dawdles: nothing half is stored, nothing is promised before it is safe, and it is said plainly.

The server runs on a file system layer of SQLite that does what a file next to it says.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.faults.press import IS_LONG, Client, must_be_whole, must_keep_its_promises, pressing, tell
from tests.helpers import Server, eventually, start_server

LAYER = """
import apsw, os, time

def mood():
    try:
        with open(os.environ["BAD_DISK"]) as file:
            return file.read()
    except FileNotFoundError:
        return ""

class File(apsw.VFSFile):
    def __init__(self, name, flags):
        super().__init__("unix", name, flags)

    def xWrite(self, data, offset):
        if mood() == "writing fails":
            raise apsw.IOError()
        super().xWrite(data, offset)

    def xSync(self, flags):
        if mood() == "syncing fails":
            raise apsw.IOError()
        while mood() == "syncing waits":
            open(os.environ["BAD_DISK"] + ".waits", "w").close()
            time.sleep(0.01)
        super().xSync(flags)

class Layer(apsw.VFS):
    def __init__(self):
        super().__init__("bad", "unix", makedefault=True)

    def xOpen(self, name, flags):
        return File(name, flags)

layer = Layer()
"""


@dataclass(frozen=True)
class Disk:
    server: Server
    switch: Path

    @contextmanager
    def that(self, mood: str) -> Iterator[None]:
        self.switch.write_text(mood)
        try:
            yield
        finally:
            self.switch.write_text("")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    place = tmp_path_factory.mktemp("bad")
    with start_server(place / "home", before=LAYER, BAD_DISK=place / "switch") as server:
        yield Disk(server, place / "switch")


@pytest.mark.parametrize("mood", ["writing fails", "syncing fails"])
def test_io_errors_are_refused_plainly_and_leave_nothing_half(disk: Disk, mood: str):
    client = Client(disk.server)
    room = client.thread()
    before = [client.post(room, f"before {n}")[1] for n in range(3)]
    with disk.that(mood):
        refused = [client.post(room, f"meanwhile {n}") for n in range(3)]
        assert [status for status, _ in refused] == [503] * 3, refused
        assert all("nothing was stored" in answer["detail"] for _, answer in refused)
        assert str(disk.switch.parent) not in str(refused)
        # Reading goes on; readiness tells the truth; the process is well.
        assert [m["id"] for m in client.messages(room)] == [m["id"] for m in before]
        assert client.ask("GET", "/healthz")[0] == 200
    eventually(disk.server.is_ready)
    status, after = client.post(room, "afterwards")
    assert (status, after["seq"]) == (201, 4)
    assert client.messages(room) == [*before, after]
    assert client.found("meanwhile") == []
    assert after["id"] in client.found("afterwards")
    must_be_whole(disk.server)
    assert "Traceback" not in disk.server.said()


def test_nothing_is_acknowledged_before_it_is_synced_and_readers_do_not_wait(disk: Disk):
    client = Client(disk.server)
    rooms = [client.thread() for _ in range(2)]
    client.post(rooms[0], "quicksilver")
    with disk.that("syncing waits"), pressing(disk.server, rooms, clients=12) as promised:
        eventually(disk.switch.with_name(disk.switch.name + ".waits").exists)
        for _ in range(20):
            assert client.ask("GET", f"/api/threads/{rooms[0]}/messages?limit=5")[0] == 200
        assert promised.messages == [], "answered before it was safe"
        disk.switch.write_text("")
        eventually(lambda: len(promised.messages) > 40)
    assert promised.refused == []
    must_keep_its_promises(disk.server, rooms, promised, searches=10)
    must_be_whole(disk.server)


@pytest.mark.skipif(not IS_LONG, reason="takes minutes: run it with make faults")
def test_after_a_failing_disk_and_a_kill_there_is_no_half_of_anything(tmp_path: Path):
    home, switch = tmp_path / "home", tmp_path / "switch"
    with start_server(home, before=LAYER, BAD_DISK=switch) as server:
        disk, client = Disk(server, switch), Client(server)
        room = client.thread()
        with pressing(server, [room], clients=4) as promised:
            for mood in ("writing fails", "syncing fails"):
                enough = len(promised.messages) + 20
                eventually(partial(_are, promised.messages, enough))
                with disk.that(mood):
                    eventually(partial(_are, promised.refused, len(promised.refused) + 1))
            server.process.kill()
            server.process.wait(10)
    with start_server(home) as server:
        must_keep_its_promises(server, [room], promised, searches=10)
        must_be_whole(server)
    assert {status for status, _ in promised.refused} <= {503}
    tell(f"{len(promised.messages)} acknowledged around {len(promised.refused)} failures and a kill, none lost")


def _are(some: list[Any], enough: int) -> bool:
    return len(some) >= enough
