"""Texts that a caller may not read do not take the place of texts that it may read, however many there are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.store.bus import HUMAN, Bus

from palaver.model.people import Caller
from palaver.model.sessions import Turn
from palaver.model.times import micros, now
from palaver.operations.search.knowledge import SearchKnowledge, search_knowledge
from palaver.operations.sessions.owners import owner_or_new
from palaver.operations.sessions.recording import append
from palaver.store.engines.database import Lookup, Reader, Scope
from palaver.store.library import documents
from palaver.store.search import found_passages
from palaver.text.query import Phrase

HUMAN_ONLY = {"visibility": "human_only"}
AGENT = Caller(kind="agent")
BLIND = Scope(("bus",), titles=False, without=(documents.HUMAN_ONLY,), is_blind=True)


async def fill(bus: Bus, hidden: int) -> None:
    thread = await bus.thread()
    for text in ("the first boat", "the second boat"):
        await bus.post(thread, text)
    for _ in range(hidden):
        await bus.post(thread, "a hidden boat", metadata=HUMAN_ONLY)


async def test_hidden_messages_do_not_push_others_out_of_a_period(bus: Bus):
    await fill(bus, hidden=30)
    today = replace(BLIND, since=micros(now()) - 3_600_000_000, until=micros(now()) + 3_600_000_000)
    found = await bus.here.read(lambda read: found_passages.newest_of_period(read, today, 5, 4))
    assert len(found) == 2


async def test_hidden_messages_do_not_push_others_out_of_the_newest(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(found_passages, "MOST_LISTED", 3)
    await fill(bus, hidden=40)
    assert len(await bus.here.read(lambda read: found_passages.newest(read, BLIND, 5))) == 2


async def test_hidden_messages_are_not_in_the_size_of_a_scope(bus: Bus):
    await fill(bus, hidden=3)

    def sizes(read: Reader) -> list[int]:
        return [read.count(Lookup(replace(BLIND, titles=True), cap)) for cap in (2, 3, 4, 100)]

    assert await bus.here.read(sizes) == [2, 3, 3, 3]


async def test_the_order_of_an_agents_candidates_does_not_depend_on_hidden_messages(bus: Bus):
    thread = await bus.thread()
    for text in ("boat boat sea", "sea sea sea boat"):
        await bus.post(thread, text)

    def order(read: Reader) -> list[tuple[int, float]]:
        groups = [[Phrase(("boat",)), Phrase(("sea",))]]
        return [(hit.passage_id, hit.score) for hit in read.look_up(Lookup(BLIND, 10, groups, order="best")).hits]

    before = await bus.here.read(order)
    for _ in range(20):
        await bus.post(thread, "sea and a long text about other things", metadata=HUMAN_ONLY)
    assert await bus.here.read(order) == before


async def test_hidden_messages_do_not_change_the_confidence(bus: Bus):
    thread = await bus.thread()
    for text in ("the first boat is red", "the second boat is at sea"):
        await bus.post(thread, text)
    request = SearchKnowledge(query="Which boat is at sea?", dedupe=False)

    async def asked() -> float | None:
        answer = await search_knowledge.work(bus.here, AGENT, request)
        return None if answer.confidence is None else float(answer.confidence)

    before = await asked()
    assert before
    for n in range(20):
        await bus.post(thread, f"boat {n} of the sea and all that", metadata=HUMAN_ONLY)
    assert await asked() == before


async def test_sessions_of_others_do_not_take_the_place_of_a_title(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(found_passages, "MOST_TITLED", 1)
    await bus.thread("The plan")
    owner = await bus.here.change(lambda change: owner_or_new(change, HUMAN, "bot"))
    turn = Turn("1", "s", owner.id, "user", "The plan", now(), now())  # it becomes the title
    await append(bus.here, owner, "s", [turn])
    found = await bus.here.read(lambda read: found_passages.documents_with_title(read, "the plan", groups="[]"))
    assert [one.source for one in found] == ["bus"]
