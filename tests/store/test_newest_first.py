"""If very many messages match, the newest are looked up and ranked. PostgreSQL looks for them in blocks of ids."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from tests.store.bus import Bus, rows

from palaver.search.match import match
from palaver.store.engines import bm25
from palaver.store.engines.database import Found, Lookup, Reader, Scope
from palaver.store.engines.postgres import dialect as postgres
from palaver.store.engines.postgres import plan
from palaver.text.query import Phrase, expression

BODIES = Scope(("bus",), titles=False)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a test can reach."""
    monkeypatch.setattr(plan, "BLOCK", 4)
    monkeypatch.setattr(plan, "LARGE_BLOCK", 64)
    monkeypatch.setattr(plan, "MOST_BLOCKS", 6)
    monkeypatch.setattr(bm25, "RANKED_AT_MOST", 10)


async def fill(bus: Bus, *batches: list[str]) -> list[int]:
    """Post messages one after another, and let PostgreSQL count their words. Returns the ids of passages."""
    thread = await bus.thread()
    for texts in batches:
        for text in texts:
            await bus.post(thread, text)
    await bus.here.change(analyse)
    bodies = await bus.here.read(lambda read: rows(read, "SELECT id FROM passages WHERE position > 0 ORDER BY id"))
    return [row["id"] for row in bodies]


def analyse(read: Reader) -> None:
    if read.connection.dialect.name == "postgres":
        read.connection.run("ANALYZE passage_index", {})


def lookups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many blocks each lookup of PostgreSQL looks in; 0 is all."""
    seen: list[int] = []
    newest_first = plan.newest_first

    def counting(connection, look_up, *others):
        def counted(in_blocks):
            seen.append(sum(one.count("block") for one in in_blocks))
            return look_up(in_blocks)

        return newest_first(connection, counted, *others)

    monkeypatch.setattr(plan, "newest_first", counting)
    return seen


def best(read: Reader, words: str, scope: Scope = BODIES, limit: int = 50) -> Found:
    return read.look_up(Lookup(scope, limit, query=expression(words), order="best"))


async def found(bus: Bus, words: str) -> tuple[set[int], bool]:
    found = await bus.here.read(partial(best, words=words))
    return set(found.ids), found.is_capped


async def having(bus: Bus, words: str, cap: int) -> list[int]:
    return await bus.here.read(lambda read: read.look_up(Lookup(BODIES, cap, [[Phrase(tuple(words.split()))]])).ids)


@pytest.mark.parametrize("words", ["heliotrope", "heliotr*", '"heliotrope number"', "heliotrope OR mignonette"])
async def test_the_newest_of_very_many_matches_are_ranked(bus: Bus, monkeypatch: pytest.MonkeyPatch, words: str):
    ids = await fill(bus, [f"heliotrope number {n}" for n in range(80)])
    seen = lookups(monkeypatch)
    assert (await found(bus, words))[0] == set(ids[-11:])
    assert await having(bus, "heliotropes", 7) == ids[-7:][::-1]
    if seen:  # PostgreSQL
        assert all(0 < blocks < 10 for blocks in seen)


async def test_a_less_common_word_is_looked_up_in_large_blocks(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    texts = [f"{'heliotrope' if n % 8 == 0 else 'mignonette'} {n}" for n in range(400)]
    ids = await fill(bus, *(texts[n : n + 40] for n in range(0, 400, 40)))
    expected = await having(bus, "heliotrope", 1000)
    assert len(expected) == 50
    assert set(expected) <= set(ids)
    seen = lookups(monkeypatch)
    assert (await found(bus, "heliotrope"))[0] == set(expected[:11])
    assert seen in ([], [3])  # SQLite has no blocks


async def test_matches_that_are_all_old_are_found(bus: Bus):
    ids = await fill(bus, [f"heliotrope {n}" for n in range(60)], ["mignonette"] * 40)
    assert (await found(bus, "heliotrope"))[0] == set(ids[49:60])
    assert await having(bus, "heliotrope", 7) == ids[53:60][::-1]
    assert await having(bus, "heliotrope", 100) == ids[:60][::-1]


async def test_a_word_that_became_common_after_the_last_analyze_is_found(bus: Bus):
    ids = await fill(bus, [f"heliotrope {n}" for n in range(60)])
    thread = await bus.thread("another")
    await bus.posts(thread, [f"mignonette {n}" for n in range(30)])
    newest = await having(bus, "mignonette", 100)
    assert len(newest) == 30
    assert min(newest) > ids[-1]
    assert (await found(bus, "mignonette"))[0] == set(newest[:11])


async def test_few_matches_are_counted_as_not_capped(bus: Bus):
    ids = await fill(bus, [f"heliotrope {n}" for n in range(60)], ["mignonette"] * 9)
    assert await found(bus, "mignonette") == (set(ids[-9:]), False)


@pytest.mark.thorough("postgres")
@pytest.mark.parametrize(
    "query, matches",
    [
        ("heliotrope AND mignonette", [3]),
        ("heliotrope AND (mignonette OR asphodel)", [3, 4]),
        ("(heliotrope OR asphodel) AND (mignonette OR asphodel)", [2, 3, 4]),
        ("heliotrope AND asphodel NOT mignonette", [4]),
        ('"heliotrope mignonette" AND mignonette', [3]),
        ("NEAR(heliotrope asphodel)", [4]),
        ("asphodel AND helio*", [4]),
        ("helio* AND (migno* OR aspho*)", [3, 4]),
        ('"heliotrope mign"*', [3]),
        ("helio* NOT migno*", [0, 4]),
    ],
)
async def test_all_conditions_of_a_query_hold(bus: Bus, query: str, matches: list[int]):
    ids = await fill(bus, ["heliotrope", "mignonette", "asphodel", "heliotrope mignonette", "heliotrope asphodel"])
    assert (await found(bus, query))[0] == {ids[number] for number in matches}


async def test_a_beginning_is_checked_in_the_passages_with_a_rare_word(bus: Bus):
    ids = await fill(bus, [f"heliotrope number {n}" for n in range(80)], ["asphodel heliotrope", "asphodel only"])
    assert await found(bus, "asphodel helio*") == ({ids[80]}, False)
    assert await found(bus, '"asphodel helio"*') == ({ids[80]}, False)
    assert (await found(bus, '"number 7"*'))[0] == {ids[7], *ids[70:80]}
    both = [[Phrase(("asphodel",))], [Phrase(("helio",), prefix=True)]]
    assert await bus.here.read(lambda read: read.look_up(Lookup(BODIES, 100, both)).ids) == [ids[80]]


async def test_very_many_matches_are_told_also_if_enough_have_the_words_side_by_side(bus: Bus):
    apart, beside = (
        [f"heliotrope or mignonette {n}" for n in range(40)],
        [f"heliotrope mignonette {n}" for n in range(5)],
    )
    ids = await fill(bus, apart, beside)
    page = await bus.here.read(lambda read: match(read, expression("heliotrope mignonette"), BODIES, 3))
    assert {hit.passage_id for hit in page.hits} <= set(ids[40:])
    assert page.capped
    timed = replace(BODIES, since=0)
    assert (await bus.here.read(lambda read: best(read, "heliotrope", timed, 3))).is_capped
    few = await bus.here.read(lambda read: match(read, expression('heliotrope "mignonette 3"'), BODIES, 1))
    assert not few.capped


async def test_while_words_are_typed_fewer_matches_are_ranked(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bm25, "FEW_RANKED", 5)
    ids = await fill(bus, [f"heliotrope number {n}" for n in range(80)])
    typed = replace(BODIES, is_typed=True)
    for words in ("heliotrope", "helio*", '"heliotrope number"', '"heliotrope num"*'):
        page = await bus.here.read(partial(best, words=words, scope=typed))
        assert set(page.ids) == set(ids[-6:])
        assert (await bus.here.read(partial(best, words=words, scope=typed, limit=3))).is_capped


async def test_a_phrase_of_common_words_is_found(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(postgres, "COUNTED_AT_MOST", 20)
    monkeypatch.setattr(bm25, "RANKED_AT_MOST", 100)
    ids = await fill(bus, [f"heliotrope {'mignonette' if n % 4 else 'or mignonette'} {n}" for n in range(60)])
    expected = {ids[n] for n in range(60) if n % 4}
    assert (await found(bus, '"heliotrope mignonette"'))[0] == expected
    assert (await found(bus, '"heliotrope mign"*'))[0] == expected
