"""The messages of a canonical ChatGPT database, one by one, for whoever serves it as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from palaver.importers.canonical_db import moment_of, text_of
from palaver.importers.sqlite_file import columns, plain, reading
from palaver.model.library import Said

_SIMPLE = re.compile(r"[A-Za-z0-9 ]+")


def messages(path: Path, part: str | None = None) -> Iterator[tuple[str, str, Said]]:
    """Each message with its conversation's id and title, in no order. Of those without `part` some are left out."""
    with reading(path) as database:
        has_time = "create_time" in columns(database, "messages")
        sql = (
            f"SELECT m.id, m.conversation_id, m.role, m.content, {'m.create_time' if has_time else 'NULL'}, c.title "
            "FROM messages m LEFT JOIN conversations c ON c.id = m.conversation_id"
        )
        given = {}
        if part and _SIMPLE.fullmatch(part):  # such text stands in JSON as it is: the engine can pass over the rest
            sql += " WHERE m.content LIKE :like OR c.title LIKE :like"
            given["like"] = f"%{part}%"
        for id, conversation, role, content, created, title in database.execute(sql, given):
            text = text_of(_text(content))
            if text:
                yield _text(conversation), _text(title), Said(_text(id), _text(role), text, moment_of(created))


def _text(value: Any) -> str:
    return "" if value is None else plain(value) or str(value)
