"""Long passages are found by every word in them, wherever it stands, and the scores are the same on both engines."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.store.bus import HUMAN, Bus, opened

from palaver.model.people import Caller
from palaver.operations.search import knowledge
from palaver.settings import Settings
from palaver.store.engines.database import IndexRow, Reader, Scope
from palaver.store.engines.postgres.dialect import MOST_PLACES, MOST_WORDS, OVERLAP, tsvectors
from palaver.text.query import Phrase, closer, expression, plain

LINES = 600
LOG = "\n".join(
    f"2026-11-03T10:{n // 60:02}:{n % 60:02} POL-{n} GET /api/items/{n}/parts src/app/mod{n}.py took {n * 7 % 97} ms"
    for n in range(LINES)
)
CHINESE = "".join(chr(0x4E00 + n * 7919 % 20_000) for n in range(20_000)) * 5


async def test_every_line_of_a_pasted_log_is_found(bus: Bus):
    thread = await bus.thread()
    await bus.post(thread, "nothing of the kind")
    message = await bus.post(thread, LOG)
    for n in (0, 1, 57, 127, 128, 254, 255, 256, 358, 500, LINES - 1):
        for typed in (f"POL-{n}", f"src/app/mod{n}.py", f'"api items {n} parts"', f"NEAR(POL-{n} mod{n}, 12)"):
            assert await bus.found(typed) == {message.id}, typed
    assert await bus.found("POL-0 POL-599") == {message.id}
    assert await bus.found("POL-0 NOT POL-599") == set()
    assert await bus.found("POL-600 OR POL-599") == {message.id}
    assert await bus.found("NEAR(POL-0 POL-599, 12)") == set()
    assert await bus.found('"ms 2026"') == {message.id}


async def test_every_phrase_of_a_long_chinese_text_is_found(bus: Bus):
    thread = await bus.thread()
    message = await bus.post(thread, CHINESE)
    for at in (0, MOST_WORDS - 2, MOST_WORDS - 1, MOST_WORDS, 40_000, 99_990):
        assert await bus.found(CHINESE[at : at + 5]) == {message.id}
    across = CHINESE[MOST_WORDS - 50 : MOST_WORDS + 50]
    assert await bus.found(f'"{across}"') == {message.id}
    assert await bus.found(f'"{across[:-1]}{across[0]}"') == set()


async def test_a_long_text_that_is_edited_is_found_by_its_new_words_only(bus: Bus):
    thread = await bus.thread()
    message = await bus.post(thread, LOG)
    await bus.edit(message, LOG.replace("POL-358 ", "TKT-358 "))
    assert await bus.found("POL-358") == set()
    assert await bus.found("TKT-358") == {message.id}
    await bus.delete(message)
    assert await bus.found("TKT-358") == set()


def words_of(part: str) -> int:
    return part.count("A") if part else 0


@pytest.mark.parametrize(
    "words",
    [
        ["a"] * 1_000,
        [f"w{n % 3}" for n in range(5_000)],
        [f"w{n}" for n in range(40_000)],
        [f"w{n}" for n in range(MOST_PLACES + 1)],
        ["a"] * MOST_PLACES + ["b"],
    ],
)
def test_the_parts_of_a_long_text_overlap_and_none_is_too_long(words: list[str]):
    row = IndexRow(("busbody",), " ".join(words), " ".join(f"\u02e2{word}" for word in words))
    parts = tsvectors(row)
    assert all("busbody" in part for part in parts)
    for part in parts:
        lexemes = part.split()
        assert max(lexeme.count(",") + 1 for lexeme in lexemes) <= MOST_PLACES
    assert sum(map(words_of, parts)) == len(words) + OVERLAP * (len(parts) - 1)


VOCABULARY = ["deploy", "failed", "rate", "limit", "harbour", "lantern", "the", "a", "of", "merged", "build", "release"]


def texts() -> list[str]:
    some = random.Random(7)
    return [" ".join(some.choices(VOCABULARY, k=some.randint(1, 40))) for _ in range(400)] + [LOG, "rate limit " * 400]


QUERIES = [
    *VOCABULARY,
    "deploy failed",
    "rate limit",
    "the rate of release",
    "harbour OR lantern",
    "build NOT failed",
    '"rate limit" deploy',
    "re*",
    "(deploy OR build) AND merged",
    "POL-358 ms",
]


PLAIN = ["deploy failed", "the rate of release", "merged build limit"]


@pytest.fixture
async def both(settings: Settings, tmp_path: Path) -> AsyncIterator[tuple[Bus, Bus]]:
    """The same messages on SQLite and on this engine."""
    apart = replace(settings, home=tmp_path / "apart", database_url="")
    async with opened(apart) as one, opened(settings) as other:
        for bus in (one, other):
            thread = await bus.thread("status")
            for text in texts():
                await bus.post(thread, text)
            gone = await bus.post(thread, "deploy deploy deploy")
            await bus.edit(await bus.post(thread, "harbour"), "lantern lantern")
            await bus.delete(gone)
        yield one, other


async def test_scores_are_the_same_on_both_engines(both: tuple[Bus, Bus]):
    for query in [*map(expression, QUERIES), *(closer(plain(typed)) for typed in PLAIN)]:
        answers = []
        for bus in both:
            found = await bus.here.read(
                partial(Reader.find, query=query, scope=Scope(("bus",), titles=False), limit=500)
            )
            answers.append([hit.score for hit in found.hits])
        assert answers[0], query
        assert answers[0] == pytest.approx(answers[1], rel=1e-9), query


async def test_the_best_match_comes_first_among_very_many(bus: Bus):
    thread = await bus.thread()
    best = await bus.post(thread, "deploy failed")
    many = [f"failed number {n}, so we deploy again tomorrow, says the board" for n in range(2_300)]
    await bus.posts(thread, many)
    for typed in ("deploy failed", "failed", "deploy"):
        assert (await bus.hits(typed))[0] == best.id, typed
        for caller in (HUMAN, Caller(kind="agent")):
            ask = knowledge.SearchKnowledge(query=typed, limit=1)
            answer: Any = await knowledge.search_knowledge.perform(bus.here, caller, ask)
            assert answer.results[0].snippet == "deploy failed", (typed, caller)


async def test_words_side_by_side_and_in_order_come_first(bus: Bus):
    thread = await bus.thread()
    asked = await bus.post(thread, "we hit the rate limit again, and nobody knows why it is so low on this machine")
    await bus.post(thread, "limit your rate of coffee")
    await bus.post(thread, "rate rate rate: we limit, limit, limit")
    await bus.post(thread, "rate, then limit")
    assert (await bus.hits("rate limit"))[0] == asked.id
    assert (await bus.hits("rate limit NOT tea"))[0] == asked.id
    assert len(await bus.hits("rate limit")) == 4


async def test_one_phrase_is_looked_up_in_windows(bus: Bus):
    thread = await bus.thread()
    words = [f"w{n}" for n in range(400)]
    message = await bus.post(thread, " ".join(["filler"] * 300 + words))
    assert await bus.found(f'"{" ".join(words[100:300])}"') == {message.id}
    assert await bus.found(f'"{" ".join(words[100:200] + words[201:300])}"') == set()
    assert await bus.here.read(lambda read: read.find(Phrase(tuple(words)), Scope(("bus",), titles=False), 5).hits)
