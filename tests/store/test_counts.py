"""How many passages have a word, for callers who may read everything and for those who may not."""

from __future__ import annotations

import pytest
from tests.store.bus import Bus
from tests.store.test_newest_first import analyse

from palaver.search import recall
from palaver.search.question import parse
from palaver.store.engines.database import STEM, Lookup, Scope
from palaver.store.library.documents import HUMAN_ONLY
from palaver.text.query import Phrase

BODIES = Scope(("bus",), titles=False)
HELIOTROPE = [[Phrase(("heliotrope",))]]


@pytest.fixture
async def filled(bus: Bus) -> Bus:
    """Of 400 messages, 50 have the word. Every other one of these is for humans only."""
    thread = await bus.thread()
    for n in range(0, 400, 8):
        await bus.post(thread, f"heliotrope {n}", metadata={"visibility": "human_only"} if n % 16 else None)
        await bus.posts(thread, [f"mignonette {n + more}" for more in range(1, 8)])
    return bus


async def test_the_number_of_matches_is_known(filled: Bus):
    await filled.here.change(analyse)
    known = await filled.here.read(lambda read: read.frequencies([STEM + "heliotrop"]))
    assert 45 <= known[STEM + "heliotrop"] <= 55
    assert await filled.here.read(lambda read: read.count(Lookup(BODIES, 1000, HELIOTROPE))) == 50


async def test_a_common_word_is_counted_up_to_a_limit(filled: Bus):
    await filled.here.change(analyse)
    lookups = [Lookup(BODIES, most, [[Phrase(("mignonette",))]]) for most in (1000, 100)]
    assert await filled.here.read(lambda read: [read.count(one) for one in lookups]) == [350, 100]


async def test_a_word_in_one_of_very_many_messages_is_found(bus: Bus):
    thread = await bus.thread()
    await bus.posts(thread, ["heliotrope", *(f"mignonette {n}" for n in range(400))])
    assert await bus.here.read(lambda read: read.count(Lookup(BODIES, 1000, HELIOTROPE))) == 1
    hits = await bus.here.read(lambda read: recall.find_hits(read, parse("heliotrope mignonette"), [BODIES]))
    assert len(hits.by_terms[0b01]) == 1


async def test_what_an_agent_may_not_read_is_not_counted(filled: Bus):
    scope = Scope(("bus",), titles=False, without=(HUMAN_ONLY,), is_blind=True)
    assert await filled.here.read(lambda read: read.count(Lookup(scope, 1000, HELIOTROPE))) == 25
