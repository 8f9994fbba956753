"""The library in the store: what is deleted is not found, what is restored is, and the index is always whole."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from tests.store.bus import HUMAN, Bus, posting, rows

from palaver.errors import Conflict, NotFound
from palaver.model.library import Character, ItemDraft, Media, Note, Prompt
from palaver.model.sources import ALL_SOURCES
from palaver.operations import library as operations
from palaver.operations.search import knowledge as searching
from palaver.search import recall
from palaver.search.question import parse
from palaver.search.sources.filters import NotesFilters
from palaver.search.sources.indexing import index_character, index_media, index_note, index_prompt
from palaver.store.engines.database import Change, Reader, Scope
from palaver.store.library import documents
from palaver.store.library import items as library
from palaver.store.library.documents import NewPassage
from palaver.store.library.items import LibraryItem
from palaver.store.search import found_passages

START = datetime(2026, 1, 1, tzinfo=UTC)


def note(content: str, title: str = "title", *keywords: str) -> ItemDraft:
    return index_note(Note(title=title, content=content, keywords=keywords))


async def add(bus: Bus, shelved: ItemDraft, source: str = "notes") -> LibraryItem:
    return await bus.here.change(lambda change: library.add(change, source, shelved))


async def found(bus: Bus, query: str, *sources: str) -> set[str]:
    """The ids of the documents that have any of these words."""

    return await bus.here.read(lambda read: documents_with(read, query, Scope(sources or ("notes",))))


def documents_with(read: Reader, query: str, where: Scope) -> set[str]:
    gathered = recall.look_up_terms(read, parse(query), [where])
    return {hit.document for hit in found_passages.candidates(read, list(gathered.best_first()))}


async def assert_whole(bus: Bus) -> None:
    """Every passage of what is there stands in the index, nothing else does, and the engine has no complaint."""

    def look(read: Reader) -> tuple[bool, set[int], set[int]]:
        sqlite = read.connection.dialect.name == "sqlite"
        indexed = rows(read, f"SELECT {'rowid' if sqlite else 'passage_id'} AS id FROM passage_index")
        alive = rows(
            read, "SELECT p.id FROM passages p JOIN documents d ON d.id = p.document_id WHERE d.deleted_at IS NULL"
        )
        return documents.is_complete(read), {row["id"] for row in indexed}, {row["id"] for row in alive}

    is_complete, indexed, alive = await bus.here.read(look)
    assert is_complete
    assert indexed == alive
    assert await asyncio.to_thread(bus.here.engine.check) == []


async def test_delete_edit_restore_search(bus: Bus):
    kept = await add(bus, note("heliotrope " * 500, "the heliotrope", "purple"))
    kept = await bus.here.change(lambda change: library.update(change, kept, note("mignonette " * 700, "another")))
    assert await found(bus, "heliotrope purple") == set()
    await bus.here.change(lambda change: library.delete(change, kept))
    assert await found(bus, "mignonette another") == set()
    await assert_whole(bus)
    back = await bus.here.change(lambda change: library.restore(change, "notes", kept.id))
    assert await found(bus, "mignonette") == await found(bus, "another") == {kept.id}
    await assert_whole(bus)
    await bus.here.change(lambda change: library.update(change, back, note("rose")))
    assert await found(bus, "mignonette another") == set()
    assert await found(bus, "rose") == {kept.id}
    await assert_whole(bus)


async def test_deleting_and_restoring_many_times_leaves_the_index_whole(bus: Bus):
    kept = await add(bus, note("heliotrope " * 300))
    for _ in range(3):
        await bus.here.change(lambda change: library.delete(change, kept))
        await bus.here.change(lambda change: library.restore(change, "notes", kept.id))
        await bus.here.change(lambda change: library.restore(change, "notes", kept.id))
    assert await found(bus, "heliotrope") == {kept.id}
    await assert_whole(bus)


async def test_a_change_in_one_transaction_with_others_is_whole(bus: Bus):
    """Add, change, delete and restore without a commit in between: the index sees only how it ends."""

    def work(change: Change) -> tuple[str, str]:
        one = library.add(change, "notes", note("heliotrope"))
        one = library.update(change, one, note("mignonette"))
        library.delete(change, one)
        library.restore(change, "notes", one.id)
        other = library.add(change, "notes", note("heliotrope"))
        library.delete(change, other)
        return one.id, other.id

    one, _ = await bus.here.change(work)
    assert await found(bus, "mignonette") == {one}
    assert await found(bus, "heliotrope") == set()
    await assert_whole(bus)


async def test_a_lost_index_is_written_again_without_what_was_deleted(bus: Bus):
    kept, gone = await add(bus, note("heliotrope one", "t", "k")), await add(bus, note("heliotrope two"))
    await bus.here.change(lambda change: library.delete(change, gone))

    def lose(change: Change) -> None:
        change.connection.run("DELETE FROM passage_index", {})

    await bus.here.change(lose)
    assert await found(bus, "heliotrope") == set()
    await bus.here.change(lambda change: documents.backfill(change, 1000))
    assert await found(bus, "heliotrope") == {kept.id}
    where = NotesFilters(keywords=["K"]).scope
    scoped = await bus.here.read(lambda read: documents_with(read, "heliotrope", where(read, HUMAN) or Scope(())))
    assert scoped == {kept.id}
    await assert_whole(bus)


async def test_an_update_of_an_old_version_is_a_conflict(bus: Bus):
    kept = await add(bus, note("a"))
    newer = await bus.here.change(lambda change: library.update(change, kept, note("b")))
    assert (newer.version, newer.created_at) == (2, kept.created_at)
    with pytest.raises(Conflict):
        await bus.here.change(lambda change: library.update(change, kept, note("c")))
    stored = await bus.here.read(lambda read: library.bodies(read, kept.document_id))
    assert stored == {"content": "b"}
    await assert_whole(bus)


async def test_what_is_not_there_is_not_found(bus: Bus):
    kept = await add(bus, note("a"))
    await bus.here.change(lambda change: library.delete(change, kept))
    for id in (kept.id, "absent"):
        assert await bus.here.read(partial(library.find, source="notes", id=id)) is None
        with pytest.raises(NotFound):
            await bus.here.read(partial(library.must_exist, source="notes", id=id))
    with pytest.raises(NotFound):  # of another source
        await bus.here.change(lambda change: library.restore(change, "prompts", kept.id))


async def test_numbers_are_given_in_order_and_never_again(bus: Bus):
    card = index_character(Character(name="x"))
    first = [await add(bus, card, "characters") for _ in range(3)]
    await bus.here.change(lambda change: library.delete(change, first[2]))
    assert [kept.shown_id for kept in (*first, await add(bus, card, "characters"))] == [1, 2, 3, 4]
    film = index_media(Media(title="x", media_type="v", content=""))
    assert (await add(bus, film, "media")).shown_id == 1


async def test_a_fields_text_that_became_empty_leaves_nothing(bus: Bus):
    prompt = index_prompt(Prompt(name="n", details="heliotrope", keywords=("purple",)))
    kept = await add(bus, prompt, "prompts")
    await bus.here.change(lambda change: library.update(change, kept, index_prompt(Prompt(name="n"))))
    assert await found(bus, "heliotrope purple", "prompts") == set()
    await assert_whole(bus)


@pytest.mark.parametrize("seed", range(3))
async def test_after_any_changes_the_search_knows_exactly_what_is_there(bus: Bus, seed: int):
    chance = random.Random(seed)
    words = ["heliotrope", "mignonette", "rose", "aster"]
    model: dict[str, tuple[str, bool]] = {}

    def work(change: Change) -> None:
        for _ in range(25):
            match chance.choice(["add", "edit", "delete", "restore"]):
                case "add":
                    said = chance.choice(words)
                    kept = library.add(change, "notes", note(f"{said} " * chance.choice([1, 400]), "x"))
                    model[kept.id] = said, True
                case _ if not model:
                    pass
                case "edit":
                    id = chance.choice(list(model))
                    if model[id][1]:
                        said = chance.choice(words)
                        library.update(change, library.must_exist(change, "notes", id), note(said, "x"))
                        model[id] = said, True
                case "delete":
                    id = chance.choice(list(model))
                    if model[id][1]:
                        library.delete(change, library.must_exist(change, "notes", id))
                        model[id] = model[id][0], False
                case _:
                    id = chance.choice(list(model))
                    library.restore(change, "notes", id)
                    model[id] = model[id][0], True

    for _ in range(3):
        await bus.here.change(work)
        for said in words:
            assert await found(bus, said) == {id for id, (text, alive) in model.items() if text == said and alive}
    await assert_whole(bus)


# More than a thousand hits in eight sources

EACH = 130


def fill(change: Change) -> None:
    chance = random.Random(7)

    def text() -> str:
        return "heliotrope " + "and other words " * chance.randrange(6)

    for n in range(EACH):
        at = START + timedelta(hours=chance.randrange(200))
        library.add(change, "notes", note(text(), "t"), at)
        library.add(change, "media", index_media(Media(title="t", media_type="v", content=text())), at)
        library.add(change, "characters", index_character(Character(name="n", scenario=text())), at)
        library.add(change, "prompts", index_prompt(Prompt(name="n", details=text())), at)
        for source in ("sessions", "archive"):
            document = documents.add_document(
                change, source=source, native_id=f"a/{source}{n}", title=None, created_at=at, data={}, agent_id="a"
            )
            documents.add_passage(change, source, NewPassage(document, 1, "m", text(), at, role="user"))


@pytest.fixture
async def thousand(bus: Bus) -> Bus:
    await bus.here.change(fill)
    thread = await bus.thread()
    chat = await bus.do(operations.chats.create_chat, title="t")

    def talk(change: Change) -> None:
        for n in range(EACH):
            posting(thread, f"heliotrope {n % 7 * 'word '}")(change)
            ask = operations.chats.AddChatMessage(
                conversation_id=chat.id, sender="x", content=f"heliotrope {n % 5 * 'word '}"
            )
            operations.chats.add_chat_message.work(change, HUMAN, ask)

    await bus.here.change(talk)
    return bus


async def search(bus: Bus, **ask: Any) -> Any:
    return await bus.do(searching.search_knowledge, query="heliotrope", dedupe=False, snippet_length=50, **ask)


@pytest.mark.thorough("postgres")
async def test_pages_over_a_thousand_hits_in_eight_sources_are_disjoint_complete_and_stable(thousand: Bus):
    for order in ("relevance", "recent"):
        items = await all_pages(thousand, order)
        assert len({item.uri for item in items}) == len(items) == 8 * EACH
        for source in ALL_SOURCES:
            assert sum(item.source == source for item in items) == EACH
        assert max(item.score for item in items) == 1.0
        assert all(0 < item.score <= 1 for item in items)
        ordered = sorted(items, key=lambda item: item.uri)
        ordered.sort(key=lambda item: item.last_modified, reverse=True)
        if order == "relevance":
            ordered.sort(key=lambda item: item.score, reverse=True)
            assert [item.uri for item in ordered] == [item.uri for item in items]
        assert [item.last_modified for item in ordered] == [item.last_modified for item in items]
        scores = {item.uri: item.score for item in items}
        for offset in (0, 500, 1039):
            for item in (await search(thousand, limit=7, offset=offset, order_by=order)).results:
                assert item.score == scores[item.uri]


async def all_pages(bus: Bus, order: str) -> list[Any]:
    items: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        page = await search(bus, limit=97, offset=offset, order_by=order)
        assert page.total_estimated == 8 * EACH
        assert page.has_more == (page.next_offset is not None)
        items += page.results
        offset = page.next_offset
    return items
