"""Long passages are found by every word in them, wherever it stands, and the scores are the same on both engines."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.store.bus import HUMAN, Bus, opened

from palaver.model.people import Caller
from palaver.operations.search import knowledge
from palaver.search.match import match
from palaver.settings import Settings
from palaver.store.engines.database import IndexRow, Lookup, Reader, Scope
from palaver.store.engines.postgres.index_rows import MOST_PLACES, MOST_WORDS, tsvectors
from palaver.text.query import Phrase, closer, expression, plain
from palaver.text.tokenize import stems

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
    assert await bus.found('^"2026 11"') == {message.id}
    assert await bus.found('^"ms 2026" OR ^ms') == set()


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


@pytest.mark.parametrize(
    "words",
    [
        ["a"] * 1_000,
        [f"w{n % 3}" for n in range(5_000)],
        [f"w{n}" for n in range(40_000)],
        [f"{n:0200}" for n in range(20_000)],
        [chr(0x4E00 + n * 7919 % 20_000) for n in range(100_000)],
        [*(["filler"] * 300), "running", "jumps", "run"],
        ["a"] * MOST_PLACES + ["b", "a"],
    ],
)
def test_a_long_text_has_each_word_in_one_of_its_parts(words: list[str]):
    row = IndexRow(("busbody",), " ".join(words), " ".join(f"\u02e2{stem}" for stem in stems(words)))
    own, parts = tsvectors(row, 1)
    assert own == "'\u00a7busbody' '\u00a7block0' '\u00a7largeblock0'"
    lexemes = [[lexeme.partition("':")[0].strip("'") for lexeme in part.split()] for part in parts]
    for part, some in zip(parts, lexemes, strict=True):
        assert {"\u00a7busbody", "\u00a7block0", "\u00a7largeblock0"} <= set(some)
        assert len(part.encode()) <= 2 * 2**20
    exact = Counter(lexeme for some in lexemes for lexeme in set(some) if lexeme[0] not in "\u00a7\u02e2")
    assert exact == Counter(set(words))
    marked = {lexeme[1:] for some in lexemes for lexeme in some if lexeme[0] == "\u02e2"}
    assert marked >= {stem for word, stem in zip(words, stems(words), strict=True) if word != stem}


def test_a_text_that_is_not_long_has_no_parts():
    for words in (["a"] * MOST_PLACES, [f"w{n}" for n in range(MOST_WORDS)], []):
        row = IndexRow(("busbody",), " ".join(words), " ".join(f"\u02e2{word}" for word in words))
        own, parts = tsvectors(row, 1)
        assert parts == []
        assert own.count("A") == len(words)


async def test_words_of_a_long_text_are_found_whatever_their_endings(bus: Bus):
    thread = await bus.thread()
    begins = " ".join(["filler"] * 300)
    plain_text = " ".join(f"w{n}" for n in range(MOST_WORDS))
    near = await bus.post(thread, f"{begins} jumping horses")
    far = await bus.post(thread, f"{plain_text} jumping horses")

    def having(read: Reader, words: tuple[str, ...]) -> set[str]:
        groups, everywhere = [[Phrase(words)]], Scope(("bus",))
        ids = read.look_up(Lookup(everywhere, 10, groups)).ids
        assert set(read.look_up(Lookup(everywhere, 10, groups, order="best")).ids) == set(ids)
        return {row[1] for row in read.rows("found_messages", ids=orjson.dumps(ids).decode())}

    for words, found in (
        (("jumps",), {near.id, far.id}),
        (("horse",), {near.id, far.id}),
        (("jumped", "horse"), {near.id, far.id}),
        (("horse", "jumped"), set()),
        (("filler", "jump"), {near.id}),
        ((f"w{MOST_WORDS - 1}", "jump"), {far.id}),
        ((f"w{MOST_WORDS - 2}", "jump"), set()),
    ):
        assert await bus.here.read(partial(having, words=words)) == found, words


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
    "^deploy",
    '^"rate limit" OR build',
    "^re* NOT ^rate",
    "lantern ^the",
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


@pytest.mark.thorough
async def test_scores_are_the_same_on_both_engines(both: tuple[Bus, Bus]):
    for query in [*map(expression, QUERIES), *(closer(plain(typed)) for typed in PLAIN)]:
        answers = []
        for bus in both:
            lookup = Lookup(Scope(("bus",), titles=False), 500, query=query, order="best")
            answers.append((await bus.here.read(partial(Reader.look_up, what=lookup))).scores)
        assert answers[0], query
        assert answers[0] == pytest.approx(answers[1], rel=1e-9), query


@pytest.mark.thorough("postgres")
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


async def test_a_very_long_phrase_is_found_in_a_long_text(bus: Bus):
    thread = await bus.thread()
    words = [f"w{n}" for n in range(400)]
    message = await bus.post(thread, " ".join(["filler"] * 300 + words))
    assert await bus.found(f'"{" ".join(words[100:300])}"') == {message.id}
    assert await bus.found(f'"{" ".join(words[100:200] + words[201:300])}"') == set()
    assert await bus.here.read(lambda read: match(read, Phrase(tuple(words)), Scope(("bus",), titles=False), 5).hits)
