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
from tests.importers.shapes import all_of, anything, assert_storable, few_ids, file_item, item_of, told

from palaver.importers import Unreadable
from palaver.importers.chats import canonical_db
from palaver.importers.chats.canonical_db import parse_any_time, read_database, text_of
from palaver.model.library import Conversation

SCHEMA = """
CREATE TABLE conversations (id TEXT PRIMARY KEY, create_time TEXT, update_time TEXT, title TEXT);
CREATE TABLE messages (id TEXT PRIMARY KEY, conversation_id TEXT NOT NULL, role TEXT, content TEXT, create_time TEXT,
    update_time TEXT, position INTEGER NOT NULL, FOREIGN KEY(conversation_id) REFERENCES conversations(id));
CREATE INDEX idx_canonical_messages_conversation ON messages(conversation_id);
"""
LOOSE = """
CREATE TABLE conversations (id, title);
CREATE TABLE messages (id, conversation_id, role, content, create_time, position);
"""
FULL = """
CREATE TABLE conversations (id TEXT PRIMARY KEY, create_time TEXT, update_time TEXT, title TEXT);
CREATE TABLE messages (id TEXT PRIMARY KEY, conversation_id TEXT, role TEXT, content TEXT, create_time TEXT,
    update_time TEXT, parent_id TEXT);
"""


def database(path: Path, schema: str = SCHEMA) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    for statement in schema.split(";"):
        connection.execute(statement)
    return connection


def conversation(
    to: apsw.Connection, id: Any, title: Any = "Ivy", created: Any = "1738500000.12346", updated: Any = ""
) -> None:
    to.execute(
        "INSERT INTO conversations (id, create_time, update_time, title) VALUES (?,?,?,?)",
        (id, created, updated, title),
    )


def message(to: apsw.Connection, id: Any, of: Any, role: Any, content: Any, at: Any = None, position: Any = 1) -> None:
    to.execute(
        "INSERT INTO messages (id, conversation_id, role, content, create_time, position) VALUES (?,?,?,?,?,?)",
        (id, of, role, content, at, position),
    )


def read(path: Path) -> list[Conversation]:
    found, skipped = all_of(canonical_db, file_item(path))
    assert skipped == []
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "canonical-export-2026-01-01.db"


def test_a_conversation_has_its_ids_times_title_and_words(path: Path):
    with database(path) as to:
        conversation(to, "c1")
        message(
            to,
            "m2",
            "c1",
            "assistant",
            json.dumps(["On the wall.", {"content_type": "image_asset_pointer"}]),
            "1738500001.5",
            2,
        )
        message(to, "m1", "c1", "user", json.dumps(["Where is the ivy?"]), "1738500000.12346", 1)
        message(to, "m3", "c1", "", "plain words", None, 3)
        message(to, "m4", "c1", None, "[]", None, 4)
        message(to, "m5", "c1", "system", '["Be kind."]', "2025-02-02T12:40:00Z", 5)
    (found,) = read(path)
    assert (found.id, found.origin, found.title) == ("canonical-db:c1", "canonical-db", "Ivy")
    assert found.created_at == datetime(2025, 2, 2, 12, 40, 0, 123460, tzinfo=UTC)
    assert found.updated_at == datetime(2025, 2, 2, 12, 40, 1, 500000, tzinfo=UTC)
    assert [(one.id, one.role, one.text) for one in found.messages] == [
        ("m1", "user", "Where is the ivy?"),
        ("m2", "assistant", "On the wall.\n[image]"),
        ("m3", "unknown", "plain words"),
        ("m5", "system", "Be kind."),
    ]
    assert [one.ts and one.ts.second for one in found.messages] == [0, 1, None, 0]


@pytest.mark.parametrize(
    "content, text",
    [
        (None, ""),
        ("", ""),
        ("plain", "plain"),
        ("[]", ""),
        ('["a", "b"]', "a\nb"),
        ('["caf\\u00e9 【1†source】"]', "café "),
        ('[{"content_type": "image_asset_pointer"}, "a"]', "[image]\na"),
        ('[{"content_type": "text", "text": "t"}]', "t"),
        ('{"content_type": "text", "parts": ["a"]}', "a"),
        ('{"a": 1}', '{"a": 1}'),
        ("[1] see the note", "[1] see the note"),
        ("[1, 2]", "[1, 2]"),
        ('["half', '["half'),
        ("[null]", ""),
    ],
)
def test_the_text_of_a_content(content: str | None, text: str):
    assert text_of(content) == text


@pytest.mark.parametrize(
    "value, expected",
    [
        (1738500000, datetime(2025, 2, 2, 12, 40, tzinfo=UTC)),
        (1738500000.5, datetime(2025, 2, 2, 12, 40, 0, 500000, tzinfo=UTC)),
        ("1738500000.5", datetime(2025, 2, 2, 12, 40, 0, 500000, tzinfo=UTC)),
        (" 1.7385e9 ", datetime(2025, 2, 2, 12, 40, tzinfo=UTC)),
        (1738500000123, datetime(2025, 2, 2, 12, 40, 0, 123000, tzinfo=UTC)),
        ("2025-02-02T12:40:00", datetime(2025, 2, 2, 12, 40, tzinfo=UTC)),
        ("2025-02-02T14:40:00+02:00", datetime(2025, 2, 2, 12, 40, tzinfo=UTC)),
        ("2025-02-02", datetime(2025, 2, 2, tzinfo=UTC)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (None, None),
        ("", None),
        ("yesterday", None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        ("9" * 30 + "e99", None),
        ([], None),
    ],
)
def test_the_moment_of_a_value(value: object, expected: datetime | None):
    assert parse_any_time(value) == expected


def test_messages_of_a_conversation_that_is_not_listed_are_kept(path: Path):
    with database(path) as to:
        conversation(to, "c1")
        message(to, "m1", "c1", "user", '["a"]')
        message(to, "m2", "gone", "user", '["b"]')
    assert [(one.id, told(one)) for one in read(path)] == [
        ("canonical-db:c1", [("user", "a")]),
        ("canonical-db:gone", [("user", "b")]),
    ]


def test_a_database_of_another_make_is_read_too(path: Path):
    with database(path, LOOSE) as to:
        to.execute("INSERT INTO conversations VALUES ('c1', NULL), (7, 'seven'), (NULL, 'x'), ('c 2', 'ünï')")
        for of in ("c1", 7, "c 2"):
            message(to, 1, of, "user", "a", 1738500000.5, 2.5)
            message(to, 1, of, b"\xff", b"\xfe b", b"\xff", 1)
            message(to, None, of, "tool", 12, "2025-02-02", 3)
    found = read(path)
    assert [one.id for one in found] == ["canonical-db:c1", "canonical-db:7", "canonical-db:c 2"]
    assert {tuple(told(one)) for one in found} == {(("\ufffd", "\ufffd b"), ("user", "a"), ("tool", "12"))}
    assert [said.id for said in found[0].messages] == ["1", "1.1", "#3"]


def test_the_full_database_is_read_by_the_branch_with_the_newest_end(path: Path):
    with database(path, FULL) as to:
        conversation(to, "c1")
        for id, parent, at in (("q", "root", "1"), ("old", "q", "2"), ("new", "q", "9"), ("more", "old", "5")):
            to.execute(
                "INSERT INTO messages VALUES (?, 'c1', 'user', ?, ?, NULL, ?)", (id, json.dumps([id]), at, parent)
            )
    (found,) = read(path)
    assert [one.id for one in found.messages] == ["q", "new"]


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_it_is_read_while_another_process_writes_it(path: Path, mode: str):
    to = database(path)
    to.execute(f"PRAGMA journal_mode = {mode}").fetchall()
    for n in range(3):
        conversation(to, f"c{n}")
        message(to, f"m{n}", f"c{n}", "user", '["a"]')
    found = read_database(path)
    next(found)
    conversation(to, "late")  # nobody waits for the reader, who has not finished
    message(to, "late", "late", "user", '["a"]')
    to.execute("BEGIN IMMEDIATE")
    to.execute("DELETE FROM messages WHERE id = 'm1'")
    assert [one.id for one in found if isinstance(one, Conversation)] == [
        "canonical-db:c1",
        "canonical-db:c2",
        "canonical-db:late",
    ]
    to.execute("COMMIT")
    to.close()


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_nothing_is_written_beside_it(path: Path, mode: str):
    to = database(path)
    to.execute(f"PRAGMA journal_mode = {mode}").fetchall()
    conversation(to, "c1")
    message(to, "m1", "c1", "user", '["a"]')
    to.close()
    before = path.read_bytes()
    assert canonical_db.recognises(file_item(path), before)
    assert len(read(path)) == 1
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "schema",
    [
        "CREATE TABLE other (id)",
        "CREATE TABLE conversations (id); CREATE TABLE messages (id)",
        "CREATE TABLE conversations (id); CREATE VIEW messages AS WITH RECURSIVE r(conversation_id, role, content) AS (SELECT 1, 1, 1 UNION ALL SELECT 1, 1, 1 FROM r) SELECT * FROM r",
    ],
)
def test_other_databases_are_not_recognised(path: Path, schema: str):
    database(path, schema).close()
    assert not canonical_db.recognises(file_item(path), path.read_bytes())


def test_a_damaged_database_is_said_so(path: Path):
    with database(path) as to:
        for n in range(300):
            conversation(to, f"c{n}", "x" * 100)
            message(to, f"m{n}", f"c{n}", "user", json.dumps(["y" * 500]))
    to.close()
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2 :] = b"\xff" * (len(raw) - len(raw) // 2)
    path.write_bytes(raw)
    with pytest.raises(Unreadable, match="cannot be read"):
        list(read_database(path))
    path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    assert not canonical_db.recognises(file_item(path), path.read_bytes())
    with pytest.raises(Unreadable):
        list(read_database(path))
    with pytest.raises(Unreadable, match="inside a zip"):
        list(canonical_db.conversations(item_of(b"")))


cell = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.binary(max_size=9)
    | few_ids.map(lambda id: id.replace("\ud800", "e"))
    | anything.map(json.dumps)
)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(cell, cell), max_size=3),
    st.lists(st.tuples(cell, cell, cell, cell, cell, cell), max_size=5),
    st.sampled_from(["position", "parent_id", "other"]),
)
def test_no_rows_are_too_strange(conversations: list[Any], messages: list[Any], last: str):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.db")
        to = database(path, LOOSE.replace("position", last))
        to.executemany("INSERT INTO conversations VALUES (?, ?)", conversations)
        to.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", messages)
        to.close()
        assert canonical_db.recognises(file_item(path), path.read_bytes())
        assert_storable(read_database(path))


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_are_too_strange(raw: bytes, has_magic: bool):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.db")
        path.write_bytes(b"SQLite format 3\x00" * has_magic + raw)
        assert not canonical_db.recognises(file_item(path), path.read_bytes())
        with suppress(Unreadable):
            list(read_database(path))
