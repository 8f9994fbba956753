"""The canonical ChatGPT database: `conversations` and `messages` in one SQLite file, one branch a conversation.

Kept: every message that has text, with its id and role (`unknown` if it has none), in the order of `position`. The
parts of a message become one text, with `[image]`, `[audio]` and so on for media. Messages of a conversation without a
row are kept, and so are messages without a conversation: together they are one. In the full database (`parent_id` in
place of `position`) the branch with the newest end is read.

Left out: messages without text. The database itself has no code, output and thoughts, and does not say which messages
were hidden.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import orjson

from palaver.importers import Unreadable
from palaver.importers.chats.branches import newest_leaf, path_to
from palaver.importers.chats.chatgpt import text_of_content, text_of_parts, without_marks
from palaver.importers.files import sqlite_file
from palaver.importers.item import Item, RawConversation, RawMessage, Skipped, collect_messages, parse_any_time
from palaver.model.library import Conversation

__all__ = ["conversations", "name", "parse_any_time", "read_database", "recognises", "text_of"]

name = "canonical-db"

BATCH = 500
COLUMNS = {
    "conversations": ("id", "title", "create_time", "update_time"),
    "messages": ("id", "conversation_id", "role", "content", "create_time", "position", "parent_id"),
}
RECOGNISED = {"conversations": {"id"}, "messages": {"conversation_id", "role", "content"}}
NEEDED = {"conversations": {"id"}, "messages": {"conversation_id", "content"}}


def recognises(item: Item, head: bytes) -> bool:
    return sqlite_file.has_columns(item, head, RECOGNISED)


def conversations(item: Item) -> Iterator[Conversation | Skipped]:
    if item.path is None:
        raise Unreadable(sqlite_file.IN_A_ZIP)
    yield from read_database(item.path, item.name)
    if found := sqlite_file.find_damage(item.path):
        yield Skipped(item.name, f"{found}; conversations may be missing")


def read_database(path: Path, shown: str = "") -> Iterator[Conversation | Skipped]:
    """The conversations of a database. Another program may write it meanwhile.

    Tables may lack columns, and may be views; only `messages.content` is needed. Raises Unreadable without it.
    """
    shown = shown or path.name
    with sqlite_file.open_read_only(path) as database:
        _copy_odd_tables(database, path.stat().st_size)
        tables = _Tables(database)
        for key, *values in tables.conversations():
            try:
                gathered = collect_messages(tables.messages(key, values[0]))
            except apsw.Error as problem:
                yield Skipped(shown, sqlite_file.describe_error(problem))
                continue
            id, title, created, updated = (sqlite_file.text_of_blob(value, tables.encoding) for value in values)
            if id is not None:
                at = parse_any_time(created), parse_any_time(updated)
                yield from RawConversation(id, gathered, title, *at).build(shown, name)
            elif gathered.said:
                for one in RawConversation("-", gathered).build(shown, name):
                    yield replace(one, id=f"{name}:") if isinstance(one, Conversation) else one


def _copy_odd_tables(database: apsw.Connection, size: int) -> None:
    """Copy views and tables without the needed columns or row numbers into temporary tables that have them."""
    database.execute(f"PRAGMA temp.max_page_count = {2 * size // 4096 + 1000}")  # a view can be endless
    for table, names in COLUMNS.items():
        is_rowless = "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?"
        if NEEDED[table] <= sqlite_file.columns_of(database, table) and not database.execute(is_rowless, (table,)).get:
            continue
        there = {str(row[0]).lower() for row in database.execute("SELECT name FROM pragma_table_info(?)", (table,))}
        if table == "messages" and "content" not in there:
            raise Unreadable("it has no messages")
        kept = [name for name in names if name in there or name in NEEDED[table]]
        selected = ", ".join(name if name in there else f"NULL AS {name}" for name in kept)
        source = f"FROM main.{table}" if there else "WHERE 0"
        database.execute(f"CREATE TEMP TABLE {table} AS SELECT {selected} {source}")


def text_of(content: str | None) -> str:
    """The text of a message: of a JSON list of parts, or else the content itself."""
    if not content:
        return ""
    if content.lstrip()[:1] not in ("[", "{"):
        return content
    try:
        parts = orjson.loads(content)
    except orjson.JSONDecodeError:
        return content
    if isinstance(parts, dict):
        if isinstance(parts.get("content_type"), str):
            return without_marks(text_of_content(parts))
        parts = parts.get("parts")
    if not isinstance(parts, list) or not all(isinstance(part, str | dict | None) for part in parts):
        return content
    return without_marks(text_of_parts(parts))


class _Tables:
    """The two tables of one database. Databases differ in their columns and indexes."""

    def __init__(self, database: apsw.Connection) -> None:
        self._database = database
        self.encoding = str(database.execute("PRAGMA encoding").get)
        known = "SELECT lower(name) FROM pragma_table_info(?)"
        self._conversations = {name for (name,) in database.execute(known, ("conversations",))}
        self._messages = {name for (name,) in database.execute(known, ("messages",))}
        is_indexed = (
            "SELECT count(*) FROM pragma_index_list('messages') l, pragma_index_info(l.name) i"
            " WHERE i.seqno = 0 AND i.name = 'conversation_id'"
        )
        self._rowids: dict[bytes | None, array[int]] | None = None
        """The messages of each conversation. Without an index each conversation would take a scan of all messages."""
        if not database.execute(is_indexed).get:
            self._rowids = {}
            for id, row in database.execute("SELECT CAST(conversation_id AS BLOB), rowid FROM messages"):
                self._rowids.setdefault(id, array("q")).append(row)

    def conversations(self) -> Iterator[tuple[str, Any, Any, Any, Any]]:
        """A subquery for its conversation_id; then its id, title and times. No statement stays open in between."""
        selected = ", ".join(self._blob(name, self._conversations) for name in ("title", "create_time", "update_time"))
        page = (
            f"SELECT rowid, CAST(id AS BLOB), {selected} FROM conversations"
            " WHERE rowid > ? AND id IS NOT NULL ORDER BY rowid LIMIT ?"
        )
        last: Any = -(2**63)
        while rows := self._database.execute(page, (last, BATCH)).fetchall():
            for last, id, title, created, updated in rows:
                yield f"SELECT id FROM conversations WHERE rowid = {last}", id, title, created, updated
        alone = (
            "SELECT min(rowid), CAST(conversation_id AS BLOB) FROM messages WHERE conversation_id IS NOT NULL"
            " AND conversation_id NOT IN (SELECT id FROM conversations WHERE id IS NOT NULL) GROUP BY conversation_id"
        )
        for row, id in self._database.execute(alone).fetchall():
            yield f"SELECT conversation_id FROM messages WHERE rowid = {row}", id, None, None, None
        if self._database.execute("SELECT EXISTS (SELECT 1 FROM messages WHERE conversation_id IS NULL)").get:
            yield "SELECT NULL", None, None, None, None

    def messages(self, key: str, id: Any) -> Iterator[RawMessage]:
        where, given = f"conversation_id IS ({key})", ""
        if self._rowids is not None:
            where = "rowid IN (SELECT value FROM json_each(?1))"
            given = orjson.dumps(self._rowids.get(id, array("q")).tolist()).decode()
        has_position = "position" in self._messages
        order = "position, rowid" if has_position else "rowid"
        names = ("id", "role", "content", "create_time", "parent_id")
        selected = ", ".join(self._blob(name, self._messages) for name in names)
        query = f"SELECT {selected} FROM messages WHERE {where} ORDER BY {order}"
        rows = (
            [sqlite_file.text_of_blob(value, self.encoding) for value in row]
            for row in self._database.execute(query, (given,) if given else ())
        )
        drafts = (
            (RawMessage(id, (role or "").strip()[:100] or "unknown", text_of(content), parse_any_time(created)), parent)
            for id, role, content, created, parent in rows
        )
        if has_position or "parent_id" not in self._messages:
            yield from (draft for draft, _ in drafts)
            return
        found = {draft.id: (draft, parent) for draft, parent in drafts if draft.id}
        parents = {id: parent for id, (_, parent) in found.items()}
        leaf = newest_leaf(parents, {id: draft.ts for id, (draft, _) in found.items()})
        yield from (found[id][0] for id in (path_to(leaf, parents) if leaf else found))

    def _blob(self, name: str, known: set[str]) -> str:
        """A column as bytes, because its text may be damaged; NULL if the table lacks it."""
        return f"CAST({name} AS BLOB)" if name in known else "NULL"
