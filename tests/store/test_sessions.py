"""Sessions in the index: what happens to turns that were taken back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.store.bus import Bus

from palaver.model.people import Caller
from palaver.model.sessions import Owner, Turn
from palaver.operations.sessions import searching
from palaver.operations.sessions.owners import owner_or_new
from palaver.operations.sessions.recording import append, take_back
from palaver.operations.sessions.session_index import reindex, verify
from palaver.search import match
from palaver.search.match import match_turns
from palaver.search.scope import own_scopes
from palaver.store.engines import bm25
from palaver.store.engines.database import Scope
from palaver.store.sessions import sessions
from palaver.text.query import Phrase

START = datetime(2026, 1, 2, tzinfo=UTC)


def turn(owner: Owner, id: str, content: str) -> Turn:
    return Turn(id, "s", owner.id, "user", content, START, START)


async def found(bus: Bus, word: str) -> list[str]:
    hits, _ = await bus.here.read(lambda read: match_turns(read, Phrase((word,)), Scope(("sessions",)), 10))
    return sorted(hit.id for hit in hits)


async def test_turns_that_were_taken_back_are_gone_until_they_are_recorded_again(bus: Bus):
    here = bus.here
    owner = await here.change(lambda change: owner_or_new(change, Caller(kind="human"), "bot"))
    await append(here, owner, "s", [turn(owner, "1", "ivy"), turn(owner, "2", "ivy oak"), turn(owner, "3", "elm")])
    await take_back(here, owner, "s", {"1", "2"})
    assert (await found(bus, "ivy"), await found(bus, "elm")) == ([], ["3"])
    assert [one.title for one in await here.read(lambda read: sessions.list_sessions(read, None, 9, 0))] == ["elm"]
    await append(here, owner, "s", [turn(owner, "2", "ivy oak")])
    assert await found(bus, "ivy") == ["2"]
    await reindex(here)
    assert await found(bus, "ivy") == ["2"]
    await take_back(here, owner, "s", {"2", "3"})
    assert await here.read(lambda read: sessions.list_sessions(read, None, 9, 0)) == []
    assert all(difference.is_fine for difference in await verify(here))


async def test_many_copies_of_a_turn_leave_room_for_others(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(match, "MOST_EQUALS", 2)
    owner = await bus.here.change(lambda change: owner_or_new(change, Caller(kind="human"), "bot"))
    copied = "0b5f1c1e-1111-4222-8333-444444444444"
    for number in range(30):
        await append(bus.here, owner, f"fork{number}", [turn(owner, copied, "ivy")])
    await append(bus.here, owner, "s", [turn(owner, "other", "ivy beside many other words of no interest")])
    assert await found(bus, "ivy") == [copied, "other"]


async def test_a_search_for_turns_tells_if_only_the_newest_were_ranked(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bm25, "FEW_RANKED", 3)
    owner = await bus.here.change(lambda change: owner_or_new(change, Caller(kind="human"), "bot"))
    await append(bus.here, owner, "s", [turn(owner, str(n), f"ivy oak number{n}") for n in range(9)])

    async def hint(words: str) -> str | None:
        request = searching.SearchOwnConversations(query=words, limit=2)
        return (await bus.here.read(lambda read: searching.find(read, request, own_scopes(read, [owner.id], "")))).hint

    assert await hint("ivy") == await hint("ivy oak") == await hint("oak ivy")
    assert "newest" in (await hint("ivy") or "")
    assert await hint("number1") is None
