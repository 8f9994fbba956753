"""The canonical ChatGPT database: `conversations` and `messages` in one SQLite file, one branch a conversation.

Kept: every message that has text, under its id, in its role (`unknown` where there is none), by `position`. Parts of a
message are shown as its text, media as `[image]`, `[audio]` and so on. Messages of a conversation that has no row of
its own are kept too. The full database (`parent_id` in place of `position`) is read by the branch with the newest end.

Left out: messages without text. Whoever made the database has left out code, output and thoughts already, and which
messages were hidden is not told in it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import orjson

from palaver.importers import Unreadable
from palaver.importers.chats.branches import newest_leaf, path_to
from palaver.importers.chats.chatgpt import text_of_content, text_of_parts, without_marks
from palaver.importers.files.sqlite_file import (
    MAGIC,
    columns,
    damage,
    plain,
    reading,
    why,
)
from palaver.importers.item import Draft, Item, Skipped, gather, moment_of, tell
from palaver.model.library import Conversation

__all__ = ["conversations", "moment_of", "name", "recognises", "stored", "text_of"]

name = "canonical-db"

BATCH = 500


def recognises(item: Item, head: bytes) -> bool:
    if item.path is None or not head.startswith(MAGIC):
        return False
    try:
        with reading(item.path) as database:
            needed = {"conversation_id", "role", "content"}
            return "id" in columns(database, "conversations") and needed <= columns(database, "messages")
    except Unreadable:
        return False


def conversations(item: Item) -> Iterator[Conversation | Skipped]:
    if item.path is None:
        raise Unreadable("a database inside a zip; unpack it and import the file")
    yield from stored(item.path, item.name)
    if found := damage(item.path):
        yield Skipped(item.name, f"{found}; conversations may be missing")


def stored(path: Path, shown: str = "") -> Iterator[Conversation | Skipped]:
    """The conversations of a database; it may be written meanwhile. Unreadable if it cannot be read at all."""
    shown = shown or path.name
    with reading(path) as database:
        about = _About(database)
        for key, id, title, created, updated in about.conversations():
            try:
                gathered = gather(about.messages(key, id))
            except apsw.Error as problem:
                yield Skipped(shown, why(problem))
                continue
            read = partial(plain, encoding=about.encoding)
            times = moment_of(read(created)), moment_of(read(updated))
            yield from tell(
                shown, name, read(id), gathered, title=read(title), created_at=times[0], updated_at=times[1]
            )


def text_of(content: str | None) -> str:
    """What a message says: the text of a JSON list of parts, or the content itself where it is none."""
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


class _About:
    """The tables of one such database, which differ in what columns and indexes they have."""

    def __init__(self, database: apsw.Connection) -> None:
        self._database = database
        self.encoding = str(database.execute("PRAGMA encoding").get)
        self._conversations = columns(database, "conversations")
        self._messages = columns(database, "messages")
        indexes = (
            "SELECT count(*) FROM pragma_index_list('messages') l, pragma_index_info(l.name) i"
            " WHERE i.seqno = 0 AND i.name = ?"
        )
        self._places: dict[bytes, array[int]] | None = None
        if not database.execute(indexes, ("conversation_id",)).get:
            self._places = self._find_places()

    def _find_places(self) -> dict[bytes, array[int]]:
        """Without an index each conversation would take a scan of all messages."""
        places: dict[bytes, array[int]] = {}
        for id, row in self._database.execute("SELECT CAST(conversation_id AS BLOB), rowid FROM messages"):
            if id is not None:
                places.setdefault(id, array("q")).append(row)
        return places

    def conversations(self) -> Iterator[tuple[str, Any, Any, Any, Any]]:
        """First what finds its conversation_id, then what is known of it. No statement stays open in between."""
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

    def messages(self, key: str, id: Any) -> Iterator[Draft]:
        where, given = f"conversation_id = ({key})", ""
        if self._places is not None:
            where = "rowid IN (SELECT value FROM json_each(?1))"
            given = orjson.dumps(self._places.get(id, array("q")).tolist()).decode()
        if "position" in self._messages:
            yield from (draft for draft, _ in self._rows(f"{where} ORDER BY position, rowid", given))
        elif "parent_id" in self._messages:
            yield from self._branch(where, given)
        else:
            yield from (draft for draft, _ in self._rows(f"{where} ORDER BY rowid", given))

    def _branch(self, where: str, given: str) -> Iterator[Draft]:
        found = {
            draft.id: (draft, parent) for draft, parent in self._rows(f"{where} ORDER BY rowid", given) if draft.id
        }
        parents = {id: parent for id, (_, parent) in found.items()}
        leaf = newest_leaf(parents, {id: draft.ts for id, (draft, _) in found.items()})
        yield from (found[id][0] for id in (path_to(leaf, parents) if leaf else found))

    def _rows(self, where: str, given: str) -> Iterator[tuple[Draft, str | None]]:
        names = ("id", "role", "content", "create_time", "parent_id")
        selected = ", ".join(self._blob(name, self._messages) for name in names)
        for row in self._database.execute(f"SELECT {selected} FROM messages WHERE {where}", (given,) if given else ()):
            id, role, content, created, parent = (plain(value, self.encoding) for value in row)
            yield Draft(id, (role or "").strip()[:100] or "unknown", text_of(content), moment_of(created)), parent

    def _blob(self, name: str, known: frozenset[str]) -> str:
        return f"CAST({name} AS BLOB)" if name in known else "NULL"
