"""The power fails: what was acknowledged is there, and the server starts without help.

The data of the server, its uploads and its transcripts are on a disk that loses what was not synced. PostgreSQL is not
tested in this way: its files are its own concern.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from tests.faults.mixed.clients import CHANGES, Crowd, Ledger, MixedClient
from tests.faults.mixed.crash_state import MODES, Mode, after_power_failure, look_at
from tests.faults.mixed.promises import must_keep_everything
from tests.faults.press import IS_LONG, Client, kill, tell
from tests.helpers import environment, eventually, start_server, started_with

RECORDER = Path(__file__).with_name("disk_recorder.py").read_text("utf-8")
HOMES, CUTS = (10, 10) if IS_LONG else (1, 3)
CLIENTS = 6
TORN_LINES = re.compile(r"lines? of the transcript \S+ cannot be read")


class Machine:
    """A server on a disk whose power can be cut."""

    def __init__(self, place: Path) -> None:
        self.home, self._place, self._number = place / "home-0", place, 0
        self.dice = random.Random()
        self.ledgers = [Ledger() for _ in range(CLIENTS)]
        self.rooms: list[str] = []
        self.home.mkdir()

    def work_and_cut(self, mode: Mode, enough: int, *, ignores_syncs: bool = False) -> int:
        """Start the server, check everything, let clients do `enough`, and cut the power. Returns how much was checked."""
        before, record = look_at(self.home), self._place / f"record-{self._number}"
        with start_server(
            self.home,
            before=RECORDER,
            DISK_ROOT=self.home,
            DISK_RECORD=record,
            DISK_IGNORES_SYNCS=int(ignores_syncs),
        ) as server:
            client = Client(server)
            checked = must_keep_everything(server, self.ledgers, self.rooms, is_full=True)
            must_be_healthy(client)
            assert "Traceback" not in server.said()
            self.rooms = self.rooms or [client.thread() for _ in range(2)]
            crowd = Crowd([MixedClient(server, n, self.rooms, one) for n, one in enumerate(self.ledgers)], CHANGES)
            crowd.start()
            eventually(partial(_has_done, crowd, enough))
            kill(server)
            crowd.stop()
            assert crowd.errors == []
        self._number += 1
        old, self.home = self.home, self._place / f"home-{self._number}"
        after_power_failure(before, old, record, self.home, mode, self.dice)
        shutil.rmtree(old)
        record.unlink()
        return checked


def _has_done(crowd: Crowd, enough: int) -> bool:
    return crowd.done >= enough or bool(crowd.errors)


def must_be_healthy(client: Client) -> None:
    assert client.ask("GET", "/readyz") == (200, {"status": "ready"})
    assert client.ask("GET", "/api/overview")[1]["status"]["check"]["findings"] == []


def must_be_whole_or_repairable(home: Path) -> None:
    """A turn that was being written may have left a line that cannot be read. The doctor sets it aside."""
    env = environment(home)
    found = [line for line in started_with(env, "doctor").stdout.splitlines() if line.startswith("✗")]
    assert all(TORN_LINES.search(line) for line in found), found
    if found:
        started_with(env, "doctor", "--repair")
        assert started_with(env, "doctor").returncode == 0


@pytest.mark.thorough
def test_what_was_acknowledged_survives_a_power_cut(tmp_path: Path):
    kept, checked, modes = 0, 0, Counter[str]()
    for number in range(HOMES):
        place = tmp_path / f"machine-{number}"
        place.mkdir()
        machine = Machine(place)
        for _ in range(CUTS):
            mode = machine.dice.choice(MODES)
            checked += machine.work_and_cut(mode, enough=machine.dice.randint(1, 60))
            modes[mode] += 1
        with start_server(machine.home) as server:
            checked += must_keep_everything(server, machine.ledgers, machine.rooms, is_full=True)
            must_be_healthy(Client(server))
        must_be_whole_or_repairable(machine.home)
        with start_server(machine.home) as server:
            must_keep_everything(server, machine.ledgers, machine.rooms, is_full=True)
        kept += sum(len(one.messages) + len(one.turns) + len(one.notes) + len(one.uploads) for one in machine.ledgers)
        shutil.rmtree(place)
    tell(
        f"{kept} messages, turns, notes and uploads acknowledged over {HOMES * CUTS} power cuts, none lost in "
        f"{checked} looks; unsynced writes survived: "
        + ", ".join(f"{mode} {count} times" for mode, count in sorted(modes.items()))
    )


@pytest.mark.thorough
def test_on_a_disk_that_does_not_sync_the_test_finds_what_is_lost(tmp_path: Path):
    """Otherwise the test above would prove nothing."""
    machine = Machine(tmp_path)
    machine.work_and_cut("nothing", enough=50, ignores_syncs=True)
    with pytest.raises(AssertionError, match="acknowledged and is gone"):
        machine.work_and_cut("nothing", enough=1)
