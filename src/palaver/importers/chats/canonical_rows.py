"""The messages of a canonical ChatGPT database, one by one, for whoever serves it as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import apsw

from palaver.importers.chats.canonical_db import moment_of, text_of
from palaver.importers.files.sqlite_file import columns, plain, reading
from palaver.model.library import Said

_SIMPLE = re.compile(r"[A-Za-z0-9 ]+")
_STEPS = 20_000

# The engine passes over plain text without the part. What is shown otherwise than it stands there comes along: letters
# beyond ASCII (ß is found as ss), as they are or escaped in JSON, the marks of citations, and media.
_MAY_HOLD = r"""
 WHERE m.content LIKE :like OR c.title LIKE :like
    OR length(CAST(m.content AS TEXT)) <> length(CAST(m.content AS BLOB))
    OR length(CAST(c.title AS TEXT)) <> length(CAST(c.title AS BLOB))
    OR m.content LIKE '%\u%' OR m.content LIKE '%citeturn%' OR m.content LIKE '%oaicite%'
    OR m.content LIKE '%pointer%'
"""


def messages(
    path: Path, part: str | None = None, too_late: Callable[[], bool] = lambda: False
) -> Iterator[tuple[str, str, Said]]:
    """Each message with its conversation's id and title, in no order. Of those without `part` some are left out.

    `too_late` is asked again and again, and may end it by raising.
    """
    where = ""
    given: dict[str, str | int] = {}
    if part and _SIMPLE.fullmatch(part):
        where, given = _MAY_HOLD, {"like": f"%{part}%"}
    for _, conversation, title, said in _read(path, "0", where, given, too_late):
        yield conversation, title, said


def conversations_among(path: Path, ids: Iterable[str]) -> set[str]:
    """Which of these conversations the database has messages of."""
    with reading(path) as database:
        if "conversation_id" not in columns(database, "messages"):
            return set()
        has = "SELECT EXISTS (SELECT 1 FROM messages WHERE conversation_id = ?1)"
        return {id for id in ids if database.execute(has, (id,)).get}


def messages_after(path: Path, row: int) -> Iterator[tuple[int, str, str, Said]]:
    """The messages behind a given row of the table, each with the number of its own."""
    return _read(path, "m.rowid", " WHERE m.rowid > :row ORDER BY m.rowid", {"row": row}, lambda: False)


def _selection(database: apsw.Connection) -> str:
    """What is read of a message. Only `content` must be there; as blobs, since text may be in another encoding."""
    ours = {name for (name,) in database.execute("SELECT lower(name) FROM pragma_table_info('messages')")}
    theirs = {name for (name,) in database.execute("SELECT lower(name) FROM pragma_table_info('conversations')")}
    names = ("id", "conversation_id", "role", "content", "create_time")
    read = [f"CAST({f'm.{name}' if name in ours or name == 'content' else 'NULL'} AS BLOB)" for name in names]
    titles = "SELECT NULL AS id, NULL AS title WHERE 0"
    if {"id", "title"} <= theirs and "conversation_id" in ours:
        titles = "SELECT id, title FROM conversations"
    of = "m.conversation_id" if "conversation_id" in ours else "NULL"
    return f"{', '.join(read)}, CAST(c.title AS BLOB) FROM messages m LEFT JOIN ({titles}) c ON c.id = {of}"


def _read(
    path: Path, number: str, where: str, given: dict[str, str | int], too_late: Callable[[], bool]
) -> Iterator[tuple[int, str, str, Said]]:
    with reading(path) as database:
        encoding = str(database.execute("PRAGMA encoding").get)
        database.set_progress_handler(too_late, _STEPS)
        for row, *values in database.execute(f"SELECT {number}, {_selection(database)}{where}", given):
            id, conversation, role, content, created, title = (plain(value, encoding) for value in values)
            text = text_of(content)
            if text:
                said = Said(id or "", (role or "").strip(), text, moment_of(created))
                yield row, conversation or "", title or "", said
