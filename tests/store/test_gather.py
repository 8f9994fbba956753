"""Looking words up for a question: the rarest first, and no more than can be looked at."""

from __future__ import annotations

import pytest
from tests.store.bus import Bus

from palaver.model.times import now
from palaver.search import recall
from palaver.search.hits import PLACED, Hits, TermWeights
from palaver.search.question import parse, terms_of
from palaver.store.engines.database import Reader, Scope
from palaver.store.engines.id_ranges import id_range_of
from palaver.store.library.documents import document_scope
from palaver.store.search import found_passages

BUS = [Scope(("bus",))]


async def gathered(bus: Bus, question: str, slices: list[Scope] = BUS) -> Hits:
    return await bus.here.read(lambda read: recall.look_up_terms(read, parse(question), slices))


async def test_each_passage_is_marked_with_the_words_it_has(bus: Bus):
    thread = await bus.thread()
    for text in ("a blue boat", "two boats", "blue sky", "nothing of it"):
        await bus.post(thread, text)
    found = await gathered(bus, "blue boats")
    assert {mask: len(ids) for mask, ids in found.by_terms.items()} == {0b01: 1, 0b10: 1, 0b11: 1}
    assert not found.too_common
    assert not found.is_capped


async def test_passages_with_more_of_the_words_come_first_then_newer_ones(bus: Bus):
    thread = await bus.thread()
    for text in ("a blue boat", "blue sky", "blue sea", "the boat is blue"):
        await bus.post(thread, text)
    found = await gathered(bus, "blue boat")
    first, second, third, fourth = found.best_first()
    assert found.terms_of(first) == found.terms_of(second) == 0b11
    assert first > second
    assert third > fourth


def test_the_id_range_of_a_source_does_not_change_its_rank():
    notes, titles = (id_range_of("notes", titles=titles)[0] for titles in (False, True))
    bus = id_range_of("bus")[0]
    ids = [*range(bus, bus + 4), *range(notes, notes + 4), *range(titles, titles + 4)]
    found = Hits({1: set(ids)}, TermWeights((1.0,), (0.0,)))
    assert list(found.best_first(5)) == [titles + 3, notes + 3, bus + 3, titles + 2, notes + 2]
    assert sorted(found.best_first()) == sorted(ids)


async def test_words_of_the_theme_are_looked_up_where_little_was_found(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    thread = await bus.thread()
    for text in ("a blue boat", "the harbour", "nothing of it"):
        await bus.post(thread, text)

    def look(read: Reader) -> Hits:
        return recall.look_up_terms(read, parse("blue boat"), BUS)

    monkeypatch.setattr(recall, "theme_of", lambda question: terms_of("harbour quay"))
    found = await bus.here.read(look)
    assert found.are_few
    assert {mask: len(ids) for mask, ids in found.by_terms.items()} == {0b11: 1, 0b10000: 1}
    assert 0 < found.weights.cover(0b10000) < found.weights.cover(0b01)
    assert not found.weights.has_all(0b10000)
    monkeypatch.setattr(recall, "FEW_HITS", 0)
    found = await bus.here.read(look)
    assert not found.are_few
    assert list(found.by_terms) == [0b11]


async def test_of_many_hits_of_a_question_more_are_placed(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    thread = await bus.thread()
    for n in range(4):
        await bus.post(thread, f"a blue boat {n}")

    async def placed(query: str) -> int:
        found = await bus.here.read(lambda read: recall.find_hits(read, parse(query), BUS))
        assert found.count == 4
        return found.placed

    assert await placed("Where is the blue boat?") == PLACED
    monkeypatch.setattr(recall, "MANY_HITS", 3)
    assert await placed("Where is the blue boat?") == recall.PLACED_OF_MANY
    assert await placed("blue boat") == PLACED


async def test_a_rare_word_tells_more_than_a_common_one(bus: Bus):
    thread = await bus.thread()
    for n in range(20):
        await bus.post(thread, f"harbour {n}" + (" quicksilver" if n == 3 else ""))
    common, rare = (await gathered(bus, "harbour quicksilver")).weights.rarity
    assert rare > common + 1


async def test_a_word_that_occurs_nowhere_finds_nothing(bus: Bus):
    await bus.post(await bus.thread(), "harbour")
    found = await gathered(bus, "zanzibar")
    assert found.by_terms == {}
    assert found.best_first() == {}


async def test_only_the_slice_is_looked_at(bus: Bus):
    one, other = await bus.thread(), await bus.thread()
    await bus.post(one, "harbour here")
    await bus.post(other, "harbour there")
    assert (await gathered(bus, "harbour")).count == 2
    assert (await gathered(bus, "harbour", [Scope(("notes",))])).by_terms == {}
    assert (await gathered(bus, "harbour", [Scope(("bus",), scopes=("d0",))])).by_terms == {}


def collect_few(monkeypatch: pytest.MonkeyPatch, most: int, enough: int = 100) -> None:
    """A word is common if more than `most` passages have it."""
    monkeypatch.setattr(recall, "FEW_PASSAGES", most)
    for limits in ("KEYWORDS", "ASKED"):
        monkeypatch.setattr(recall, limits, recall.Limits(most, most, most, enough, most, 1.0))


async def test_a_common_word_brings_passages_only_while_there_is_room(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    collect_few(monkeypatch, 10)
    thread = await bus.thread()
    for n in range(30):
        await bus.post(thread, "harbour" + (" quicksilver" if n < 3 else ""))
    found = await gathered(bus, "harbour quicksilver")
    assert found.too_common == (0,)
    assert found.count == 3
    assert len(found.by_terms[0b11]) == 3  # they have the common word, too
    only = await gathered(bus, "harbour")
    assert only.is_capped
    assert only.count == 10


async def test_the_size_of_the_index_is_known(bus: Bus):
    thread = await bus.thread()
    for n in range(7):
        await bus.post(thread, f"harbour {n}")

    def size(read: Reader) -> int:
        return read.size()

    assert await bus.here.read(size) >= 7


async def test_two_common_words_bring_the_passages_that_have_both(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    collect_few(monkeypatch, 5)
    thread = await bus.thread()
    both = await bus.post(thread, "harbour lantern")
    for _ in range(10):
        await bus.post(thread, "harbour")
        await bus.post(thread, "lantern")
    found = await gathered(bus, "harbour lantern")
    assert found.is_capped
    assert len(found.by_terms[0b11]) == 1
    assert next(iter(found.best_first().values())) == 0b11
    assert both


async def test_the_passages_with_three_common_words_are_found_however_old_they_are(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
):
    collect_few(monkeypatch, 5)
    thread = await bus.thread()
    await bus.post(thread, "harbour lantern mooring")
    pairs = ["harbour lantern", "lantern mooring", "mooring harbour"]
    for pair in pairs * 6:  # of each pair, only the newest five are looked up
        await bus.post(thread, pair)
    found = await gathered(bus, "harbour lantern mooring")
    assert found.is_capped
    assert len(found.by_terms[0b111]) == 1
    assert {terms: len(ids) for terms, ids in found.by_terms.items() if terms in (0b011, 0b101, 0b110)} == {
        0b011: 5,
        0b101: 5,
        0b110: 5,
    }


async def test_if_enough_passages_have_three_common_words_pairs_are_not_looked_up(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
):
    collect_few(monkeypatch, 5)
    thread = await bus.thread()
    for _ in range(6):
        await bus.post(thread, "harbour lantern mooring")
    for _ in range(6):
        await bus.post(thread, "harbour lantern")
    found = await gathered(bus, "harbour lantern mooring")
    assert len(found.by_terms[0b111]) == 5
    assert 0b011 not in found.by_terms


async def test_if_enough_passages_have_rare_words_common_ones_are_not_looked_up_together(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
):
    thread = await bus.thread()
    for n in range(10):
        await bus.post(thread, "harbour lantern" + (" quicksilver" if n < 3 else ""))
    collect_few(monkeypatch, 5, enough=4)
    few = await gathered(bus, "harbour lantern quicksilver")
    assert {terms: len(ids) for terms, ids in few.by_terms.items()} == {0b111: 3, 0b011: 5}
    collect_few(monkeypatch, 5, enough=3)
    enough = await gathered(bus, "harbour lantern quicksilver")
    assert {terms: len(ids) for terms, ids in enough.by_terms.items()} == {0b111: 3}


async def test_a_word_that_is_rare_in_the_scope_is_not_cut(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    collect_few(monkeypatch, 5)
    busy, quiet = await bus.thread(), await bus.thread()
    for n in range(10):
        await bus.post(busy, f"harbour lantern {n}")
    await bus.post(quiet, "harbour")
    scope = (
        f"d{await bus.here.read(lambda read: read.must('document_by_native', source='bus', native_id=quiet.id)['id'])}"
    )
    found = await gathered(bus, "harbour lantern", [Scope(("bus",), scopes=(scope,))])
    assert found.count == 1
    assert not found.is_capped


async def test_keywords_collect_more_than_a_question(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recall, "FEW_PASSAGES", 4)
    monkeypatch.setattr(recall, "ASKED", recall.Limits(4, 4, 4, 4, 4, 1.0))
    thread = await bus.thread()
    for n in range(10):
        await bus.post(thread, f"harbour {n}")
    assert (await gathered(bus, "harbour")).count == 10
    asked = await gathered(bus, "Where is the harbour?")
    assert asked.count == 4
    assert asked.is_capped


async def test_a_related_word_counts_half(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    thread = await bus.thread()
    await bus.post(thread, "a dog")
    await bus.post(thread, "a puppy")
    monkeypatch.setattr(recall, "related_words", lambda question: [terms_of("puppy")])
    found = await bus.here.read(lambda read: recall.look_up_terms(read, parse("dog"), BUS))
    assert sorted(found.best_first().values()) == [0b01, 0b10]
    assert found.weights.cover(0b01) == found.weights.cover(0b11) == 1.0
    assert 0 < found.weights.cover(0b10) <= 0.5


async def test_a_word_of_one_passage_is_found_after_the_server_has_counted(bus: Bus):
    thread = await bus.thread()
    texts = [f"only{n}x and others" for n in range(60)]
    for text in texts:
        await bus.post(thread, text)
    await bus.here.change(lambda change: change.connection.run("ANALYZE", {}))
    for n in range(60):
        assert len((await gathered(bus, f"only{n}x")).by_terms) == 1


async def test_the_passages_of_a_scope_can_be_listed(bus: Bus):
    """The list has all passages that are in the scope. It may have others."""
    thread, other = await bus.thread(), await bus.thread()
    for text in ("a blue boat", "the harbour"):
        await bus.post(thread, text)
    await bus.post(other, "nothing of it")
    everything = await bus.here.read(lambda read: found_passages.newest(read, BUS[0], 100))
    said_at = now()
    await bus.post(other, "a late word")
    (document,) = await bus.here.read(lambda read: read.all("document_by_native", source="bus", native_id=thread.id))
    scopes = [
        Scope(("bus",)),
        Scope(("bus", "notes")),
        Scope(("bus",)).between(said_at, None),
        Scope(("bus",)).between(None, said_at),
        Scope(("bus",), scopes=(document_scope(document["id"]),)),
        Scope(("bus",), roles=("user",)),
        Scope(("notes",)),
    ]
    for scope in scopes:

        def look(read: Reader, scope: Scope = scope) -> tuple[set[int] | None, list[int]]:
            listed = found_passages.listed(read, [scope], 100)
            ids = [*everything, *found_passages.newest(read, BUS[0], 1)]
            return listed, found_passages.in_scopes(read, ids, [scope])

        listed, inside = await bus.here.read(look)
        assert listed is not None
        assert set(inside) <= listed, scope
    assert await bus.here.read(lambda read: found_passages.listed(read, BUS, 2)) is None
    assert await bus.here.read(lambda read: found_passages.listed(read, [Scope(("notes",))], 2)) == set()
