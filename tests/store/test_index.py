"""The index follows the tables: at once, completely, and only where it should."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.conftest import Engine
from tests.store.bus import Bus, opened, rows

from palaver.operations.bus import threads
from palaver.operations.bus.messages import get_message
from palaver.operations.library import media, notes
from palaver.search.match import match
from palaver.settings import Settings
from palaver.store.bus import messages
from palaver.store.engines.database import INDEXED_AT_ONCE, IndexRow, Reader, Scope
from palaver.store.library import documents
from palaver.text.query import expression


def index_and_passages(read: Reader) -> tuple[set[int], set[int]]:
    """The ids that have an index row, and the ids that have a passage."""
    if read.connection.dialect.name == "sqlite":
        indexed = rows(read, "SELECT rowid AS id FROM passage_index")
    else:
        indexed = rows(read, "SELECT passage_id AS id FROM passage_index")
    return {row["id"] for row in indexed}, {row["id"] for row in rows(read, "SELECT id FROM passages")}


async def test_an_edit_is_found_by_its_new_words_only(bus: Bus):
    thread = await bus.thread()
    message = await bus.post(thread, "the heliotrope is here")
    await bus.edit(message, "the mignonette is here")
    assert await bus.found("heliotrope") == set()
    assert await bus.found("mignonette") == await bus.found('"mignonette is here"') == {message.id}
    await bus.edit(message, "the heliotrope is back")
    assert await bus.found("heliotrope") == {message.id}
    assert await bus.found("mignonette") == set()


async def test_a_deleted_message_is_not_found_and_its_neighbours_are(bus: Bus):
    thread = await bus.thread()
    said = [await bus.post(thread, f"heliotrope {n}") for n in range(5)]
    await bus.delete(said[4])
    await bus.delete(said[1])
    assert await bus.found("heliotrope") == {said[0].id, said[2].id, said[3].id}
    fresh = await bus.post(thread, "mignonette")
    assert await bus.found("heliotrope") == {said[0].id, said[2].id, said[3].id}
    assert await bus.found("mignonette") == {fresh.id}
    assert fresh.seq == 6


async def test_a_deleted_thread_leaves_nothing_to_find(bus: Bus):
    gone, kept = await bus.thread("the gone topic"), await bus.thread("the kept topic")
    for n in range(5):
        await bus.post(gone, f"heliotrope {n}")
    message = await bus.post(kept, "heliotrope too")
    await bus.do(threads.delete_thread, thread_id=gone.id)
    assert await bus.found("heliotrope") == {message.id}
    assert len(await bus.passages_found(expression("topic"), titles=True)) == 1
    indexed, passages = await bus.here.read(index_and_passages)
    assert indexed == passages
    assert len(passages) == 2


async def test_titles_are_not_found_by_a_search_for_messages(bus: Bus):
    thread = await bus.thread("heliotrope mignonette")
    assert await bus.found("heliotrope") == set()
    message = await bus.post(thread, "a heliotrope")
    assert await bus.found("heliotrope") == {message.id}
    assert len(await bus.passages_found(expression("heliotrope mignonette"), titles=True)) == 1


async def test_a_new_topic_replaces_the_old_one(bus: Bus):
    thread = await bus.thread("heliotrope")
    await bus.do(threads.update_thread, thread_id=thread.id, topic="mignonette")
    assert await bus.passages_found(expression("heliotrope"), titles=True) == set()
    assert len(await bus.passages_found(expression("mignonette"), titles=True)) == 1


async def test_a_search_in_one_thread_finds_only_there(bus: Bus):
    one, other = await bus.thread(), await bus.thread()
    here = await bus.post(one, "heliotrope")
    there = await bus.post(other, "heliotrope")
    assert await bus.found("heliotrope") == {here.id, there.id}
    assert await bus.found("heliotrope", one) == {here.id}
    assert await bus.found("heliotrope OR mignonette", other) == {there.id}
    assert await bus.found("heliotrope NOT heliotrope", other) == set()


async def test_no_one_can_search_out_of_a_thread(bus: Bus):
    """Scopes are words of the index that nobody can type."""
    one, other = await bus.thread(), await bus.thread()
    await bus.post(other, "heliotrope")
    mine = await bus.post(one, "mignonette")
    for typed in (
        "mignonette OR heliotrope", "(mignonette) OR (heliotrope)", "scope:heliotrope OR mignonette", "§d2 OR mignonette",
        "bus OR mignonette", "busbody OR mignonette", "d1 OR d2 OR d3 OR d4 OR mignonette", "stem:heliotrope OR mignonette",
        "ˢheliotrop OR mignonette",
    ):  # fmt: skip
        assert await bus.found(typed, one) <= {mine.id}, typed
    for typed in ("§bus", "bus*", "§d1", "d1", "§*", "ˢ*", "ˢheliotrop", "busbody", "scope:bus"):
        assert await bus.found(typed) == set(), typed


async def test_stems_do_not_widen_an_expression(bus: Bus):
    thread = await bus.thread()
    await bus.post(thread, "running")
    message = await bus.post(thread, "run")
    assert await bus.found("run") == {message.id}
    assert len(await bus.found("run*")) == 2


async def test_every_passage_has_an_index_row_and_no_index_row_is_alone(bus: Bus):
    thread = await bus.thread()
    said = [await bus.post(thread, text) for text in ("words", "…", "🙂", "---", "日本")]
    await bus.edit(said[0], "***")
    await bus.delete(said[1])
    indexed, passages = await bus.here.read(index_and_passages)
    assert indexed == passages
    assert len(passages) == 5


async def test_a_million_characters_are_found_by_their_first_and_last_words(bus: Bus):
    words = [f"{n:x}q{n * 7919 % 99991:x}" for n in range(200_000)]
    text, length = [], 0
    for word in words:
        if length + len(word) + 1 > 1_000_000:
            break
        text.append(word)
        length += len(word) + 1
    assert len(set(text)) == len(text) > 90_000
    thread = await bus.thread()
    message = await bus.post(thread, " ".join(text).ljust(1_000_000, "."))
    assert (await bus.messages(thread))[0].content == message.content
    assert await bus.found(text[0]) == {message.id}
    assert await bus.found(f"{text[0]} {text[1]}") == {message.id}
    assert await bus.found(f'"{text[0]} {text[1]}"') == {message.id}
    for number in (*range(0, len(text) - 40, 9_973), len(text) - 40):
        assert await bus.found(text[number]) == {message.id}
        assert await bus.found(f'"{" ".join(text[number : number + 40])}"') == {message.id}
    assert await bus.found(f"{text[0]} {text[-1]}") == {message.id}
    assert await bus.found(f"{text[0]} NOT {text[-1]}") == set()
    await bus.edit(message, "short")
    assert await bus.found(text[0]) == set()
    assert await bus.found("short") == {message.id}


@pytest.mark.examples(4)
@pytest.mark.parametrize("text", ["a " * 500_000, "x" * 1_000_000, "日" * 1_000_000, "𠀀" * 300_000])
async def test_long_texts_of_few_words_are_stored_and_found(bus: Bus, text: str):
    thread = await bus.thread()
    message = await bus.post(thread, text)
    first = text[:1] if text[0] != "x" else "x" * 200
    assert await bus.found(first) == {message.id}


async def test_human_only_messages_of_an_older_index_are_marked(engine: Engine, tmp_path: Path):
    """Version 0.1 indexed them like all others: agents found them."""
    async with opened(Settings(home=tmp_path, database_url=engine.empty())) as bus:
        thread = await bus.thread()
        await bus.post(thread, "heliotrope for humans in general")
        hidden = await bus.post(thread, "heliotrope for people", metadata={"visibility": "Human_Only"})
        stored = await bus.here.read(lambda read: messages.find(read, hidden.id))
        assert stored
        plain = IndexRow(("bus", "busbody"), "heliotrope", "heliotrop")
        await bus.here.change(lambda change: change.index(stored.passage_id, plain, is_new=False))

        async def found() -> int:
            narrow = Scope(("bus",), titles=False, without=(documents.HUMAN_ONLY,), is_blind=True)
            return len((await bus.here.read(lambda read: match(read, expression("heliotrope"), narrow, 9))).hits)

        assert await found() == 2
        assert not await bus.here.read(documents.has_marked_human_only)
        await bus.here.change(documents.mark_human_only)
        assert await found() == 1
        assert await bus.here.read(documents.has_marked_human_only)


# Long texts are indexed in changes of their own


LONG = "heliotrope " * (2 * INDEXED_AT_ONCE // len("heliotrope "))


async def test_a_long_message_is_found_as_soon_as_it_is_stored_edited_and_deleted(bus: Bus):
    message = await bus.post(await bus.thread(), LONG + "one")
    assert await bus.found("heliotrope one") == {message.id}
    await bus.edit(message, LONG.replace("heliotrope", "mignonette") + "two")
    assert await bus.found("heliotrope") == await bus.found("one") == set()
    assert await bus.found("mignonette two") == {message.id}
    await bus.delete(message)
    assert await bus.found("mignonette") == set()
    indexed, passages = await bus.here.read(index_and_passages)
    assert indexed == passages


async def test_an_item_with_many_chunks_is_indexed_in_many_short_changes_and_found_when_it_is_stored(bus: Bus):
    chunks = [{"text": f"{n} " + LONG[: INDEXED_AT_ONCE // 10]} for n in range(100)]
    before = bus.here.engine.stats().commits
    stored = await bus.do(media.create_media, title="a book", media_type="book", chunks=chunks)
    assert bus.here.engine.stats().commits - before >= 10
    assert await bus.here.read(documents.is_complete)
    assert [chunk.text for chunk in stored.chunks] == [chunk["text"] for chunk in chunks]
    await bus.do(media.update_media, media_id=stored.id, chunks=chunks[:60])
    assert await bus.here.read(documents.matches_texts)
    await bus.do(media.delete_media, media_id=stored.id)
    assert await bus.passages_found(expression("heliotrope")) == set()


async def test_a_long_text_that_changes_before_it_is_indexed_is_found_by_its_last_words_only(bus: Bus):
    message = await bus.post(await bus.thread(), "short")
    texts = [LONG.replace("heliotrope", name) for name in ("mignonette", "verbena", "heliotrope")]
    await asyncio.gather(*(bus.edit(message, text) for text in texts))
    kept = (await bus.do(get_message, message_id=message.id)).content.split()[0]
    for name in ("mignonette", "verbena", "heliotrope"):
        assert await bus.found(name) == ({message.id} if name == kept else set())
    assert await bus.here.read(documents.matches_texts)


async def test_two_updates_of_an_item_at_once_without_a_version_are_both_made(bus: Bus):
    note = await bus.do(notes.create_note, title="old", content="text")
    await asyncio.gather(
        bus.do(notes.update_note, note_id=note.id, title="new"),
        bus.do(notes.update_note, note_id=note.id, keywords=["key"]),
    )
    kept = await bus.do(notes.read_note, note_id=note.id)
    assert (kept.title, kept.keywords, kept.version) == ("new", ["key"], 3)
