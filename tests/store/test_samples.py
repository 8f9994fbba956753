"""In a very large index, PostgreSQL estimates how many passages have a word. SQLite knows it."""

from __future__ import annotations

import pytest
from tests.store.bus import Bus
from tests.store.test_newest_first import analyse

from palaver.model.people import Caller
from palaver.operations.search.knowledge import SearchKnowledge, search_knowledge
from palaver.search.expand import expand
from palaver.search.question import parse
from palaver.search.recall import lookup
from palaver.store.engines.database import STEM, Scope
from palaver.store.engines.postgres import blocks, dialect, samples
from palaver.store.library.documents import HUMAN_ONLY
from palaver.text.query import Phrase

BODIES = Scope(("bus",), titles=False)
AGENT = Caller("agent", "rook", agent_id="00000000-0000-0000-0000-000000000001")
HELIOTROPE = Phrase(("heliotrope",))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of some hundred passages is very large."""
    monkeypatch.setattr(blocks, "BLOCK", 16)
    monkeypatch.setattr(blocks, "LARGE_BLOCK", 64)
    monkeypatch.setattr(samples, "SAMPLED_FROM", 128)
    monkeypatch.setattr(samples, "RARE_SAMPLED_FROM", 256)
    monkeypatch.setattr(dialect, "RARE_ENOUGH", -1)


@pytest.fixture
async def filled(bus: Bus) -> Bus:
    """Of 400 messages, 50 have the word. Every other one of these is for humans only."""
    thread = await bus.thread()
    for n in range(0, 400, 8):
        await bus.post(thread, f"heliotrope {n}", metadata={"visibility": "human_only"} if n % 16 else None)
        await bus.posts(thread, [f"mignonette {n + more}" for more in range(1, 8)])
    return bus


async def test_the_number_of_matches_is_about_right(filled: Bus):
    known = await filled.here.read(lambda read: read.frequencies([STEM + "heliotrop"]))
    assert 30 <= known[STEM + "heliotrop"] <= 70
    assert await filled.here.read(lambda read: read.count([HELIOTROPE], BODIES, 1000)) == 50


async def test_a_common_word_is_counted_up_to_a_limit(filled: Bus):
    await filled.here.change(analyse)
    word = [Phrase(("mignonette",))]
    assert await filled.here.read(lambda read: [read.count(word, BODIES, cap) for cap in (1000, 100)]) == [350, 100]


async def test_a_word_that_no_sample_has_may_still_be_there(bus: Bus):
    thread = await bus.thread()
    await bus.posts(thread, ["heliotrope", *(f"mignonette {n}" for n in range(400))])
    assert await bus.here.read(lambda read: read.count([HELIOTROPE], BODIES, 1000)) == 1
    hits = await bus.here.read(lambda read: lookup.find_hits(read, expand(parse("heliotrope mignonette")), [BODIES]))
    assert len(hits.by_terms[0b01]) == 1


async def test_what_an_agent_may_not_read_is_not_counted(filled: Bus):
    scope = Scope(("bus",), titles=False, without=(HUMAN_ONLY,), is_blind=True)
    assert await filled.here.read(lambda read: read.count([HELIOTROPE], scope, 1000)) == 25


@pytest.mark.parametrize("query", ["heliotrope", "Where are the heliotropes?", "heliotrope mignonette"])
async def test_estimates_do_not_change_what_is_found(filled: Bus, monkeypatch: pytest.MonkeyPatch, query: str):
    async def found(caller: Caller) -> list[str]:
        results = await search_knowledge.work(filled.here, caller, SearchKnowledge(query=query, limit=50))
        return [one.uri for one in results.results]

    for caller in (AGENT, Caller("human")):
        with monkeypatch.context() as patch:
            patch.setattr(samples, "SAMPLED_FROM", 10**9)
            patch.setattr(samples, "RARE_SAMPLED_FROM", 10**9)
            exact = await found(caller)
        assert await found(caller) == exact
        assert exact
