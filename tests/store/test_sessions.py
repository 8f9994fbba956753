"""Sessions in the index: what happens to turns that were taken back."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.store.bus import Bus

from palaver.model.people import Caller
from palaver.model.sessions import Owner, Turn
from palaver.operations.sessions.owners import owner_or_new
from palaver.operations.sessions.recording import append, take_back
from palaver.operations.sessions.session_index import reindex, verify
from palaver.search.match import match_turns
from palaver.store.engines.database import Scope
from palaver.store.sessions import sessions
from palaver.text.query import Phrase

START = datetime(2026, 1, 2, tzinfo=UTC)


def turn(owner: Owner, id: str, content: str) -> Turn:
    return Turn(id, "s", owner.id, "user", content, START, START)


async def found(bus: Bus, word: str) -> list[str]:
    hits = await bus.here.read(lambda read: match_turns(read, Phrase((word,)), Scope(("sessions",)), 10))
    return sorted(hit.id for hit in hits)


async def test_turns_that_were_taken_back_are_gone_until_they_are_recorded_again(bus: Bus):
    here = bus.here
    owner = await here.change(lambda change: owner_or_new(change, Caller(kind="human"), "bot"))
    await append(here, owner, "s", [turn(owner, "1", "ivy"), turn(owner, "2", "ivy oak"), turn(owner, "3", "elm")])
    await take_back(here, owner, "s", {"1", "2"})
    assert (await found(bus, "ivy"), await found(bus, "elm")) == ([], ["3"])
    assert [one.title for one in await here.read(lambda read: sessions.list_sessions(read, owner.id, 9, 0))] == ["elm"]
    await append(here, owner, "s", [turn(owner, "2", "ivy oak")])
    assert await found(bus, "ivy") == ["2"]
    await reindex(here)
    assert await found(bus, "ivy") == ["2"]
    await take_back(here, owner, "s", {"2", "3"})
    assert await here.read(lambda read: sessions.list_sessions(read, owner.id, 9, 0)) == []
    assert all(difference.is_fine for difference in await verify(here))
