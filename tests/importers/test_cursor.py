from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.importers.shapes import all_of, anything, assert_storable, few_ids, file_item, told

from palaver.importers import Unreadable
from palaver.importers.coding_agents import cursor
from palaver.importers.item import Skipped
from palaver.model.library import Conversation

MILLIS = 1_738_500_000_000


def database(
    path: Path, values: dict[str, Any], items: dict[str, Any] | None = None, mode: str = "wal"
) -> apsw.Connection:
    to = apsw.Connection(str(path))
    to.execute(f"PRAGMA journal_mode = {mode}").fetchall()
    for table, rows in (("cursorDiskKV", values), ("ItemTable", items or {})):
        to.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        for key, value in rows.items():
            stored = value if isinstance(value, bytes | None) else json.dumps(value)
            to.execute(f"INSERT INTO {table} VALUES (?, ?)", (key, stored))
    return to


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.vscdb"


def read(
    path: Path, values: dict[str, Any], items: dict[str, Any] | None = None
) -> tuple[list[Conversation], list[Skipped]]:
    database(path, values, items).close()
    return all_of(cursor, file_item(path))


TOOL = {"name": "read_file", "rawArgs": '{"path":"ivy.txt"}', "result": '{"contents":"green"}', "status": "completed"}


def test_a_conversation_is_its_bubbles_in_the_order_of_its_headers(path: Path):
    headers = [{"bubbleId": id, "type": kind} for id, kind in (("b2", 1), ("b1", 2), ("gone", 2), (7, 1), ("b3", 2))]
    (found,), skipped = read(
        path,
        {
            "composerData:c1": {
                "_v": 10,
                "name": "Ivy",
                "createdAt": MILLIS,
                "lastUpdatedAt": MILLIS + 60_000,
                "text": "not sent yet",
                "blobEncryptionKey": "secret",
                "fullConversationHeadersOnly": headers,
            },
            "bubbleId:c1:b1": {"type": 2, "text": "I look.", "thinking": {"text": "hm"}, "toolFormerData": TOOL},
            "bubbleId:c1:b2": {
                "type": 1,
                "text": "Where is the ivy?",
                "richText": "{}",
                "createdAt": "2025-02-02T12:40:05.000Z",
            },
            "bubbleId:c1:b3": b"{half",
            "bubbleId:c1:b4": {"type": 2, "text": "a dead end"},
            "composerData:empty": {"name": "New", "fullConversationHeadersOnly": []},
            "composerData:null": None,
            "composerData:bad": b"\xff",
        },
    )
    assert (found.id, found.origin, found.title) == ("cursor:c1", "cursor", "Ivy")
    assert found.created_at == datetime(2025, 2, 2, 12, 40, tzinfo=UTC)
    assert found.updated_at == datetime(2025, 2, 2, 12, 41, tzinfo=UTC)
    assert [(one.id, one.role, one.text) for one in found.messages] == [
        ("b2", "user", "Where is the ivy?"),
        ("b1", "assistant", "I look."),
        ("b1.1", "tool", '[tool read_file] {"path":"ivy.txt"}'),
        ("b1.2", "tool", '{"contents":"green"}'),
    ]
    at = datetime(2025, 2, 2, 12, 40, 5, tzinfo=UTC)
    assert [one.ts for one in found.messages] == [at] * 4  # without a time of its own it is that of the one before
    assert skipped == [Skipped("state.vscdb", "a conversation that is not JSON")]


def test_conversations_of_older_versions_are_read(path: Path):
    inline = [{"type": 1, "bubbleId": "x", "text": "hi"}, {"type": 2, "bubbleId": "y", "text": "ho"}, 7]
    mapped = {
        "fullConversationHeadersOnly": [{"bubbleId": "m", "type": 1}],
        "conversationMap": {"m": {"text": "mapped"}},
    }
    tab = {
        "tabId": "t",
        "chatTitle": "Old",
        "lastSendTime": MILLIS,
        "bubbles": [{"type": "user", "id": "1", "text": "a"}, {"type": "ai", "id": "2", "rawText": "b"}],
    }
    found, skipped = read(
        path,
        {
            "composerData:c1": {"conversation": inline},
            "composerData:c2": mapped,
            "composerData:c3": {"tabs": [{"bubbles": inline}, 7, {"bubbles": [{"type": "ai", "text": "hum"}]}]},
            "composerData:c4": {"conversationMap": {"x": inline[0], "y": inline[1], "z": 7}},
        },
        {
            "workbench.panel.aichat.view.aichat.chatdata": {"tabs": [tab, None]},
            "composer.composerData": {
                "allComposers": [{"composerId": "c9", "conversation": inline}, {"composerId": "c1"}]
            },
        },
    )
    assert skipped == []
    assert {one.id: told(one) for one in found} == {
        "cursor:c1": [("user", "hi"), ("assistant", "ho")],
        "cursor:c2": [("user", "mapped")],
        "cursor:c3": [("user", "hi"), ("assistant", "ho"), ("assistant", "hum")],
        "cursor:c4": [("user", "hi"), ("assistant", "ho")],
        "cursor:t": [("user", "a"), ("assistant", "b")],
        "cursor:c9": [("user", "hi"), ("assistant", "ho")],
    }


def test_it_is_read_while_the_editor_has_it_open_and_nothing_is_written_beside_it(path: Path):
    to = database(path, {"composerData:c1": {"conversation": [{"type": 1, "text": "hi"}]}})
    assert cursor.recognises(file_item(path), path.read_bytes() or b"SQLite format 3\x00")
    to.execute("BEGIN IMMEDIATE")
    assert len(all_of(cursor, file_item(path))[0]) == 1
    to.execute("ROLLBACK")
    to.close()
    assert len(all_of(cursor, file_item(path))[0]) == 1
    assert list(path.parent.iterdir()) == [path]


def test_other_databases_are_not_recognised(path: Path):
    apsw.Connection(str(path)).execute("CREATE TABLE other (key, value)")
    assert not cursor.recognises(file_item(path), path.read_bytes())


def test_many_conversations_come_in_pages(path: Path):
    values = {f"composerData:c{n}": {"conversation": [{"type": 1, "text": "hi"}]} for n in range(cursor.BATCH + 1)}
    assert len(read(path, values)[0]) == cursor.BATCH + 1


bubble = st.fixed_dictionaries(
    {"type": st.sampled_from([1, 2, "user", "ai"]) | anything},
    optional={
        "text": anything,
        "rawText": anything,
        "bubbleId": few_ids | anything,
        "createdAt": anything,
        "toolFormerData": st.fixed_dictionaries({"name": anything, "rawArgs": anything, "result": anything}) | anything,
    },
)
composer = st.fixed_dictionaries(
    {},
    optional={
        "name": anything,
        "createdAt": anything,
        "conversation": st.lists(bubble | anything, max_size=3) | anything,
        "conversationMap": st.dictionaries(few_ids, bubble | anything, max_size=3) | anything,
        "fullConversationHeadersOnly": st.lists(
            st.fixed_dictionaries({"bubbleId": few_ids | anything}) | anything, max_size=3
        )
        | anything,
    },
)
chats = st.fixed_dictionaries(
    {
        "tabs": st.lists(
            st.fixed_dictionaries({"tabId": few_ids | anything, "bubbles": st.lists(bubble, max_size=3) | anything})
            | anything,
            max_size=3,
        )
        | anything
    }
)


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(few_ids, composer | anything | st.binary(max_size=9), max_size=3),
    st.dictionaries(few_ids, bubble | anything | st.binary(max_size=9), max_size=3),
    chats | anything,
)
def test_no_values_are_too_strange(composers: dict[str, Any], bubbles: dict[str, Any], old: Any):
    values = {f"composerData:{id}".encode("utf-8", "replace").decode(): one for id, one in composers.items()}
    values |= {
        f"bubbleId:{of}:{id}".encode("utf-8", "replace").decode(): one
        for of in composers
        for id, one in bubbles.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state.vscdb")
        database(path, values, {"workbench.panel.aichat.view.aichat.chatdata": old}, mode="off").close()
        assert_storable(cursor.conversations(file_item(path)))


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_are_too_strange(raw: bytes, has_magic: bool):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state.vscdb")
        path.write_bytes(b"SQLite format 3\x00" * has_magic + raw)
        assert not cursor.recognises(file_item(path), path.read_bytes())
        with suppress(Unreadable):
            list(cursor.conversations(file_item(path)))


def test_an_id_that_is_no_text_leaves_the_others_as_they_are(tmp_path: Path):
    headers = [{"bubbleId": "\ud800", "type": 1}, {"bubbleId": "b", "type": 1}]
    values = {
        "composerData:c": {"fullConversationHeadersOnly": headers},
        "bubbleId:c:b": {"type": 1, "text": "ivy"},
    }
    database(tmp_path / "state.vscdb", values).close()
    (kept,), _ = all_of(cursor, file_item(tmp_path / "state.vscdb"))
    assert [said.text for said in kept.messages] == ["ivy"]
