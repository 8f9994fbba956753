"""The archive in the store: what putting a conversation comes to, and what is found, in which order."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Engine
from tests.store.bus import Bus, opened, rows

from palaver.model.library import Conversation, Said
from palaver.model.times import micros
from palaver.search import search
from palaver.search.match import match
from palaver.search.question import parse
from palaver.settings import Settings
from palaver.store.engines.database import Change, Reader, Scope
from palaver.store.engines.postgres import connection
from palaver.store.library import archive, documents
from palaver.store.library.archive import FoundMessage, Outcome
from palaver.text.query import Phrase

START = datetime(2024, 6, 1, 12, tzinfo=UTC)


def said(text: str, at: float | None = 0, role: str = "user", id: str = "") -> Said:
    return Said(id or f"id of {text[:50]}", role, text, None if at is None else START + timedelta(seconds=at))


def talk(*messages: Said, id: str = "chatgpt:1", title: str = "", updated: float | None = None) -> Conversation:
    at = START + timedelta(seconds=updated) if updated is not None else None
    return Conversation(id, "chatgpt", title, None, at, messages)


async def put(bus: Bus, *conversations: Conversation) -> list[Outcome]:
    return await bus.here.change(lambda change: [archive.put(change, one) for one in conversations])


async def found(
    bus: Bus,
    part: str | None = None,
    *,
    roles: tuple[str, ...] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 50,
) -> list[str]:
    scope = Scope(("archive",), roles=roles).between(since, until)
    hits: list[FoundMessage] = await bus.here.read(lambda read: archive.search(read, part, scope, limit))
    return [hit.said.text for hit in hits]


async def texts(bus: Bus, id: str = "chatgpt:1") -> list[str]:
    conversation = await bus.here.read(lambda read: archive.conversation(read, id))
    assert conversation is not None
    return [one.text for one in conversation.messages]


async def test_what_a_program_copied_into_the_session_that_resumes_another_is_found_once(bus: Bus):
    first, second = said("ivy", 1), said("oak ivy", 2)
    await put(bus, talk(first, id="claude-code:1"), talk(first, second, id="claude-code:2"))
    await put(bus, talk(first, id="chatgpt:1"), talk(first, id="chatgpt:2"))
    assert await found(bus, "ivy") == ["oak ivy", "ivy", "ivy", "ivy"]
    assert await found(bus, limit=2) == ["oak ivy", "ivy"]
    hits = await bus.here.read(lambda read: search(read, parse("ivy"), [Scope(("archive",))], "relevance", 9))
    assert len(hits.ranked) == 4
    await put(
        bus, talk(replace(second, ts=START), id="claude-code:3"), talk(said("elm", id=second.id), id="claude-code:4")
    )
    assert await found(bus, "oak") == ["oak ivy"]
    assert await found(bus, "elm") == ["elm"]


async def test_a_generated_title_is_not_searched(bus: Bus):
    given = talk(said("oak", 1), said("elm", 2), title="about ivy")
    await put(bus, replace(given, is_titled=False))
    assert (await found(bus, "ivy"), await found(bus, "iv")) == ([], [])
    kept = await bus.here.read(lambda read: archive.conversation(read, "chatgpt:1"))
    assert kept is not None
    assert (kept.title, kept.is_titled) == ("about ivy", False)
    assert await put(bus, given) == ["changed"]
    assert await found(bus, "ivy") == ["elm", "oak"]


# Putting


async def test_a_conversation_comes_back_as_it_was_put(bus: Bus):
    whole = Conversation(
        id="claude-ai:x",
        origin="claude-ai",
        title="On ivy",
        created_at=START,
        updated_at=START + timedelta(minutes=5),
        messages=(said("first", 0), said("second", 1, "assistant"), said("third, without a time", None, "tool")),
    )
    assert await put(bus, whole) == ["new"]
    assert await bus.here.read(lambda read: archive.conversation(read, "claude-ai:x")) == whole
    (held,) = await bus.here.read(lambda read: archive.list_conversations(read, 10, 0))
    assert (held.id, held.origin, held.title, held.messages) == ("claude-ai:x", "claude-ai", "On ivy", 3)
    assert (held.created_at, held.updated_at) == (whole.created_at, whole.updated_at)
    assert await bus.here.read(lambda read: archive.conversation(read, "claude-ai:y")) is None


async def test_a_conversation_of_which_no_time_is_known_has_none(bus: Bus):
    whole = talk(said("once upon a time", None))
    await put(bus, whole)
    assert await bus.here.read(lambda read: archive.conversation(read, whole.id)) == whole
    (held,) = await bus.here.read(lambda read: archive.list_conversations(read, 10, 0))
    assert (held.created_at, held.updated_at) == (None, None)


async def test_the_same_again_is_unchanged_and_doubles_nothing(bus: Bus):
    one = talk(said("a"), said("b", 1))
    assert [await put(bus, one), await put(bus, one), await put(bus, one, one)] == [
        ["new"],
        ["unchanged"],
        ["unchanged"] * 2,
    ]
    assert await found(bus) == ["b", "a"]
    assert await bus.here.read(lambda read: len(archive.list_conversations(read, 10, 0))) == 1


async def test_a_newer_state_replaces_and_an_older_one_does_not_undo_it(bus: Bus):
    old = talk(said("question one"), title="Old title", updated=10)
    new = talk(said("question one"), said("answer two", 20), title="New title", updated=20)
    assert await put(bus, old) == ["new"]
    assert await put(bus, new) == ["changed"]
    assert await put(bus, old) == ["older"]
    assert await texts(bus) == ["question one", "answer two"]
    assert await found(bus, "old title") == []
    assert await found(bus, "new title") == ["answer two", "question one"]


async def test_judging_an_import_predicts_its_result(bus: Bus):
    states = [
        talk(said("a"), updated=1),
        talk(said("a"), updated=1),
        talk(said("b"), updated=2),
        talk(said("a"), updated=1),
    ]
    for state in states:
        judged = await bus.here.read(partial(archive.compare_all, batch=[archive.prepare(state)]))
        assert await put(bus, state) == judged


async def test_a_replaced_text_is_in_no_index(bus: Bus):
    await put(bus, talk(said("the regenerated answer"), updated=1))
    await put(bus, talk(said("the answer seen last", 5), updated=2))
    assert await found(bus, "regenerated") == []
    assert await found(bus, "the an") == ["the answer seen last"]
    narrow = Scope(("archive",), titles=False)

    def words(read: Reader) -> list[int]:
        return [len(match(read, Phrase((word,)), narrow, 10).hits) for word in ("regenerated", "last")]

    assert await bus.here.read(words) == [0, 1]
    assert await bus.here.read(documents.is_complete)


async def test_many_changes_leave_exactly_what_was_put_last(bus: Bus):
    dice = random.Random(4)
    last: dict[str, Conversation] = {}
    for step in range(60):
        id = f"chatgpt:{dice.randrange(5)}"
        messages = [
            said(f"{dice.choice(['oak', 'ivy', 'fern'])} {n} {step}", step * 100 + n)
            for n in range(dice.randrange(1, 4))
        ]
        last[id] = talk(*messages, id=id, title=dice.choice(["", "Trees", "Plants"]), updated=step * 100 + 50)
        await put(bus, last[id])
    for part in ("oak", "ivy", "fern", "Tree", "pla", "o", "iv", " 1 "):
        expected = {
            (one.id, m.text) for one in last.values() for m in one.messages if part.lower() in m.text or part.lower() in one.title.lower()
        }  # fmt: skip
        hits = await bus.here.read(partial(archive.search, part=part, scope=Scope(("archive",)), limit=200))
        assert {(hit.conversation, hit.said.text) for hit in hits} == expected
        assert len(hits) == len(expected)


async def test_a_put_that_fails_leaves_nothing(bus: Bus):
    def spoiled(change: Change) -> None:
        archive.put(change, talk(said("half of it")))
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await bus.here.change(spoiled)
    assert await bus.here.read(archive.is_empty)
    assert await found(bus, "half") == []


async def test_an_import_tells_no_listener_of_the_bus(bus: Bus):
    before = await bus.last_event()
    await put(bus, talk(said("quiet")))
    assert await bus.last_event() == before


async def test_lost_index_rows_are_written_again(bus: Bus):
    await put(bus, talk(said("lost and found"), title="Lost title"))
    await bus.here.change(lambda change: change.connection.run("DELETE FROM passage_index", {}))
    await bus.here.change(lambda change: change.connection.run("DELETE FROM passage_trigrams", {}))
    assert not await bus.here.read(documents.is_complete)
    assert not await bus.here.read(documents.seems_complete)
    assert await bus.here.change(lambda change: documents.backfill(change, 100)) == 2
    assert await found(bus, "and found") == ["lost and found"]
    assert await found(bus, "lost title") == ["lost and found"]


OLD_LAYOUT = "INSERT INTO counters (name, value) SELECT 'parts', 0"


async def test_many_rows_are_copied_as_they_would_be_inserted(
    on_postgres: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """COPY and INSERT write the same rows, also of texts with tabs, line breaks and backslashes."""
    texts = [f"{n} tab\there\nnext line C:\\temp \\N \\. 日本語 it's {'long ' * 300 * (n == 7)}" for n in range(120)]
    tables = ("passages", "passage_index", "passage_parts", "passage_trigrams", "passage_runs", "passage_totals")
    written = []
    for copied_from in (1, 10_000):
        monkeypatch.setattr(connection, "COPIED_FROM", copied_from)
        async with opened(Settings(home=tmp_path, database_url=on_postgres.fresh())) as bus:
            await put(bus, talk(*(said(text, n, id=f"m{n}") for n, text in enumerate(texts))))
            sql = "SELECT * FROM {} ORDER BY 1, 2"
            written.append([await bus.here.read(partial(rows, sql=sql.format(table))) for table in tables])
    assert written[0] == written[1]
    assert all(written[0])


async def test_after_wiping_no_word_is_known_that_no_text_has(on_postgres: Engine, tmp_path: Path):
    async with opened(Settings(home=tmp_path, database_url=on_postgres.fresh())) as bus:
        await put(bus, talk(said("the old secretword"), updated=1), talk(said("an ivy leaf"), id="chatgpt:2"))
        await put(bus, talk(said("the new one"), updated=2))
        await asyncio.to_thread(bus.here.engine.wipe)
        known = await bus.here.read(partial(rows, sql="SELECT run FROM passage_runs ORDER BY run"))
        assert [row["run"] for row in known] == ["an", "ivy", "leaf", "new", "one", "the"]
        assert await found(bus, "e ne") == ["the new one"]


async def test_an_archive_from_before_is_searched_while_the_index_of_its_parts_is_made_anew(bus: Bus):
    """As the migration leaves it: no part of any text is in the index, and a mark says so."""
    await put(bus, *(talk(said(f"leaf {n} of ivy", n), id=f"chatgpt:{n}", title=f"Tree {n}") for n in range(7)))
    await bus.here.change(lambda change: change.connection.run("DELETE FROM passage_trigrams", {}))
    await bus.here.change(lambda change: change.connection.run(OLD_LAYOUT, {}))
    assert not await bus.here.read(documents.is_complete)
    steps = 0
    while not await bus.here.read(documents.is_complete):
        assert await found(bus, "of iv") == [f"leaf {n} of ivy" for n in range(6, -1, -1)]
        assert await found(bus, "3") == await found(bus, "tree 3") == ["leaf 3 of ivy"]
        assert await bus.here.change(lambda change: documents.backfill(change, 3)) > 0
        steps += 1
        if steps == 2:  # what changes meanwhile is in it once
            await put(bus, talk(said("leaf 0 of ivy", 0), id="chatgpt:0", title="Tree 0", updated=9))
            await put(bus, talk(said("leaf 6 of ivy", 6), id="chatgpt:6", title="Tree 6", updated=9))
    assert steps > 4
    assert await found(bus, "of iv") == [f"leaf {n} of ivy" for n in range(6, -1, -1)]
    assert await found(bus, "3") == await found(bus, "tree 3") == ["leaf 3 of ivy"]
    assert await bus.here.change(lambda change: documents.backfill(change, 3)) == 0


async def test_many_are_put_as_one_by_one(bus: Bus):
    def state(step: int, id: int) -> Conversation:
        messages = [said(f"{word} {id} {step}", step * 10 + n) for n, word in enumerate(("oak", "ivy")[: 1 + id % 2])]
        return talk(*messages, id=f"chatgpt:{id}", title=f"Talk {id}" if id % 3 else "", updated=step * 100)

    batch = [state(step, id) for step, id in ((1, 1), (1, 2), (2, 1), (1, 3), (1, 1), (2, 2), (2, 2), (1, 4))]
    together = await bus.here.change(partial(archive.put_all, batch=[archive.prepare(one) for one in batch]))
    assert together == ["new", "new", "changed", "new", "older", "changed", "unchanged", "new"]
    for id, step in ((1, 2), (2, 2), (3, 1), (4, 1)):
        kept = await bus.here.read(partial(archive.conversation, id=f"chatgpt:{id}"))
        assert kept is not None
        assert kept.messages == state(step, id).messages
    assert await bus.here.read(documents.is_complete)
    assert await bus.here.change(partial(archive.put_all, batch=[])) == []


async def test_a_long_text_is_stored_in_pieces(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("palaver.store.engines.database.BATCH_BYTES", 100)
    messages = [said(f"piece {n} " + "é\"\\\n'\t" * n, n) for n in range(40)]
    await put(bus, talk(*messages, title='Long "one"'))
    assert await texts(bus) == [one.text for one in messages]
    assert await found(bus, "piece 39 é") == [messages[39].text]


# Finding


@pytest.mark.parametrize(
    "part", ["q", "z", "é", "ß", "ss", "i̇", "日", "日本", "😀", "%", "_", '"', "''", "*", "\\n", " x", "x "]
)
async def test_one_and_two_characters_are_found_wherever_they_stand(bus: Bus, part: str):
    inside = [f"{part} first", f"in the {part} middle", f"at the end {part}", f"twice {part}{part}", part]
    others = [said(f"hay {n}", 100 + n) for n in range(30)]
    await put(
        bus,
        talk(*(said(text, n, id=f"{n}") for n, text in enumerate(inside)), *others),
        talk(said("hay by its title", 50), id="chatgpt:2", title=f"End {part}"),
    )
    assert await found(bus, part.upper()) == ["hay by its title", *inside[::-1]]


async def test_bus_and_sessions_are_not_the_archive(bus: Bus):
    thread = await bus.thread("ivy topic")
    await bus.post(thread, "ivy on the bus")
    await put(bus, talk(said("ivy in the archive")))
    for part in ("ivy", "iv", None):
        assert await found(bus, part) == ["ivy in the archive"]
    assert await bus.found("ivy") == {message.id for message in await bus.messages(thread)}


async def test_messages_of_one_moment_come_the_latest_said_first(bus: Bus):
    await put(bus, talk(*(said(f"same {n}", 0) for n in range(5))))
    for part in (None, "sa", "same"):
        assert await found(bus, part) == [f"same {n}" for n in (4, 3, 2, 1, 0)]


async def test_no_time_is_last_and_in_no_range(bus: Bus):
    await put(bus, talk(said("known one", 5), said("not known one", None), said("known too", 1)))
    for part in (None, "kn", "known"):
        assert await found(bus, part) == ["known one", "known too", "not known one"]
        assert await found(bus, part, since=START) == ["known one", "known too"]
        assert await found(bus, part, until=START + timedelta(days=1)) == ["known one", "known too"]


async def test_both_ends_of_a_range_belong_to_it(bus: Bus):
    await put(bus, talk(*(said(f"at {n}", n) for n in range(5))))
    for part in (None, "at", "at "):
        first, last = START + timedelta(seconds=1), START + timedelta(seconds=3)
        assert await found(bus, part, since=first, until=last) == ["at 3", "at 2", "at 1"]


async def test_a_common_part_is_found_the_same_way_as_a_rare_one(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    """Where many hit, the newest are looked through first: the answer must not show it."""
    dice = random.Random(7)
    conversations = []
    for c in range(30):
        messages = [
            said(
                f"{'needle' if dice.random() < 0.5 else 'hay'} {c} {n}",
                dice.choice([None, dice.randrange(50)]),
                dice.choice(["user", "tool"]),
            )
            for n in range(10)
        ]
        conversations.append(talk(*messages, id=f"chatgpt:{c}", title=dice.choice(["needles", "stack"])))
    await put(bus, *conversations)  # only needles have an e in them
    asked: list[dict[str, Any]] = [
        {"limit": limit, "roles": roles, "since": since, "until": until}
        for limit in (1, 7, 200)
        for roles in ((), ("tool",), ("nobody",))
        for since, until in ((None, None), (START + timedelta(seconds=10), START + timedelta(seconds=20)))
    ]
    plainly = [await found(bus, "needle", **ask) for ask in asked]
    assert max(map(len, plainly)) > 100
    shortly = [await found(bus, "e", **ask) for ask in asked]
    assert shortly == plainly
    ways = ((1, 0, 9999, 500), (1, 50, 9999, 7), (10, 20_000, 9999, 3), (10_000, 20_000, 9999, 4), (1, 5, 2, 7))
    for common, looked, most, page in ways:
        monkeypatch.setattr(archive, "COMMON", common)
        monkeypatch.setattr(archive, "READ_FIRST", looked)
        monkeypatch.setattr(archive, "MOST_SORTED", most)
        monkeypatch.setattr(archive, "PAGE", page)
        for part in ("needle", "e", "ed"):
            assert [await found(bus, part, **ask) for ask in asked] == plainly


async def test_a_common_part_is_found_among_newer_messages_of_other_sources(bus: Bus, monkeypatch: pytest.MonkeyPatch):
    """Where many hit, the newest messages are read, and those of the bus are between them."""
    monkeypatch.setattr(archive, "COMMON", 2)
    monkeypatch.setattr(archive, "PAGE", 3)
    await put(bus, talk(*(said(f"needle {n}", n) for n in range(10)), said("timeless needle", None)))
    thread = await bus.thread()
    for n in range(10):
        await bus.post(thread, f"a newer needle {n}")
    expected = [*(f"needle {n}" for n in range(9, -1, -1)), "timeless needle"]
    assert await found(bus, "eedl") == expected
    await put(bus, talk(*(said(f"needle {n}", 20 - n) for n in range(10)), updated=9))  # in another order
    assert await found(bus, "eedl") == [f"needle {n}" for n in range(10)]


FILL = """
INSERT INTO passages (id, document_id, position, native_id, field, role, text, created_at)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
SELECT :first + i, :document, i + 1000, 'bulk' || i, 'content', 'user', 'filling ' || i, :at + CAST(i AS bigint) * 1000000 FROM n
RETURNING 1
"""


async def test_there_is_no_row_cap_what_is_older_than_100_000_messages_is_found(bus: Bus):
    old = replace(said("one old thing"), ts=datetime(2003, 3, 3, tzinfo=UTC))
    await put(bus, talk(old), talk(said("a newer thing"), id="chatgpt:2"))

    def fill(change: Change) -> int:
        document = rows(change, "SELECT id FROM documents WHERE native_id = 'chatgpt:2'")[0]["id"]
        last = rows(change, "SELECT max(id) AS id FROM passages WHERE field = 'content'")[0]["id"]
        at = micros(START) + 10**9
        return len(rows(change, FILL, count=100_000, first=last, document=document, at=at))

    assert await bus.here.change(fill) == 100_000
    began = time.monotonic()
    range_of: dict[str, Any] = {
        "since": datetime(2003, 3, 3, tzinfo=UTC),
        "until": datetime(2003, 3, 3, 23, tzinfo=UTC),
    }
    assert await found(bus, **range_of) == ["one old thing"]
    assert await found(bus, "OLD", **range_of) == ["one old thing"]
    assert await found(bus, "ol", **range_of) == ["one old thing"]
    assert await found(bus, "one old") == ["one old thing"]
    assert len(await found(bus, limit=200)) == 200
    assert (await found(bus, limit=1)) == ["filling 100000"]
    print(f"six searches in 100,000 messages took {time.monotonic() - began:.2f} s")


async def test_a_page_of_the_list_follows_the_other(bus: Bus):
    await put(bus, *(talk(said("x"), id=f"chatgpt:{n}", updated=n) for n in range(25)))
    listed = [
        held.id
        for offset in range(0, 30, 10)
        for held in await bus.here.read(partial(archive.list_conversations, limit=10, offset=offset))
    ]
    assert listed == [f"chatgpt:{n}" for n in range(24, -1, -1)]


PIECES = [
    *(
        "node.js",
        "Straße",
        "naïve",
        "İstanbul",
        "東京",
        "snake_case",
        "don't",
        "e\u0301t\u00e9",
        "ᾳδω",
        "ΑΙ",
        "ﬁle",
        "=>",
        "a-b",
    ),
    *("ivy", "ivory", "ivy-clad", "oak", "oaks", "the", "then", "x" * 230, "👍🏽", "100%", "C:\\temp", "\u1100\u1161"),
]


async def test_any_part_of_any_text_is_found_as_reading_all_would_find_it(bus: Bus):
    """Whichever way it is looked up: by the words that are whole in it, by threes, by fewer."""
    dice = random.Random(5)
    spoken = []
    for n in range(300):
        between = dice.choice([" ", "  ", "\n", ", "])
        spoken.append(between.join(dice.choices(PIECES, k=dice.randint(1, 9))) + f" #{n}")
    await put(bus, talk(*(said(text, n, id=f"m{n}") for n, text in enumerate(spoken))))
    for _ in range(600):
        text = dice.choice(spoken)
        start = dice.randrange(len(text))
        part = text[start : start + dice.randint(1, 40)]
        part = dice.choice([part, part.upper(), part.casefold()])
        form = documents.substring_form(part)
        expected = [one for one in reversed(spoken) if form in documents.substring_form(one)]
        assert await found(bus, part, limit=400) == expected, part


async def test_a_part_that_many_texts_may_have_is_narrowed_by_all_that_is_known_of_it(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
):
    """Also where so much is common in it that the newest are looked through first."""
    from palaver.store.engines.sqlite import dialect

    monkeypatch.setattr(dialect, "FEW_ENOUGH", 3)
    monkeypatch.setattr(archive, "COMMON", 5)
    monkeypatch.setattr(archive, "READ_FIRST", 10)
    spoken = [f"{'some of the ivory' if n % 7 else 'some of the ivy grows'} {n}" for n in range(80)]
    await put(bus, talk(*(said(text, n, id=f"m{n}") for n, text in enumerate(spoken))))
    for part in ("of the ivy", "e ivy", "me of the ivory", "he ivo", "ivor", "of the ivy grows 14", "some of"):
        assert await found(bus, part, limit=100) == [text for text in reversed(spoken) if part in text], part
