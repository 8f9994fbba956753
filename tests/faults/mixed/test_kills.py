"""Killed while clients do everything: edits, uploads, imports, sessions and the library keep what was acknowledged."""

from __future__ import annotations

import random
from functools import partial

import pytest
from tests.conftest import Engine
from tests.faults.conftest import Start
from tests.faults.mixed.clients import CHANGES, Crowd, Ledger, MixedClient
from tests.faults.mixed.promises import must_keep_everything
from tests.faults.press import IS_LONG, Client, kill, tell
from tests.helpers import eventually

KILLS = {"sqlite": 300 if IS_LONG else 3, "postgres": 120 if IS_LONG else 2}
CLIENTS = 8
FULL_CHECK = 10
"""Every so many kills everything is checked, otherwise only what changed."""


@pytest.mark.thorough
def test_everything_that_was_acknowledged_survives_a_kill(start: Start, engine: Engine):
    dice, ledgers, rooms = random.Random(), [Ledger() for _ in range(CLIENTS)], list[str]()
    kept = 0
    for kills in range(KILLS[engine.name] + 1):
        is_last = kills == KILLS[engine.name]
        with start() as server:
            client = Client(server)
            rooms = rooms or [client.thread() for _ in range(3)]
            client.close()
            kept += must_keep_everything(server, ledgers, rooms, is_full=is_last or kills % FULL_CHECK == 0)
            assert "Traceback" not in server.said()
            if is_last:
                break
            clients = [MixedClient(server, number, rooms, ledger) for number, ledger in enumerate(ledgers)]
            crowd, enough = Crowd(clients, CHANGES), dice.randint(5, 60)
            crowd.start()
            eventually(partial(_has_done, crowd, enough))
            kill(server)
            crowd.stop()
            assert crowd.errors == []
    things = sum(len(ledger.messages) + len(ledger.turns) + len(ledger.notes) for ledger in ledgers)
    files = sum(len(ledger.uploads) + len(ledger.imports) for ledger in ledgers)
    tell(
        f"{things} messages, turns and notes and {files} uploads and imports acknowledged over "
        f"{KILLS[engine.name]} kills, none lost in {kept} looks"
    )


def _has_done(crowd: Crowd, enough: int) -> bool:
    return crowd.done >= enough or bool(crowd.errors)
