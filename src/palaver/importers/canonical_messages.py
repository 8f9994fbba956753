"""The messages of a canonical ChatGPT database, one by one, for whoever serves it as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from palaver.importers.canonical_db import moment_of, text_of
from palaver.importers.sqlite_file import columns, plain, reading
from palaver.model.library import Said

_SIMPLE = re.compile(r"[A-Za-z0-9 ]+")
_STEPS = 20_000

# The engine passes over plain text without the part. What is shown otherwise than it stands there comes along: letters
# beyond ASCII (ß is found as ss), as they are or escaped in JSON, the marks of citations, and media.
_MAY_HOLD = r"""
 WHERE m.content LIKE :like OR c.title LIKE :like
    OR length(CAST(m.content AS TEXT)) <> length(CAST(m.content AS BLOB))
    OR length(CAST(c.title AS TEXT)) <> length(CAST(c.title AS BLOB))
    OR m.content LIKE '%\u%' OR m.content LIKE '%citeturn%' OR m.content LIKE '%pointer%'
"""


def messages(
    path: Path, part: str | None = None, too_late: Callable[[], bool] = lambda: False
) -> Iterator[tuple[str, str, Said]]:
    """Each message with its conversation's id and title, in no order. Of those without `part` some are left out.

    `too_late` is asked again and again, and may end it by raising.
    """
    with reading(path) as database:
        has_time = "create_time" in columns(database, "messages")
        # As blobs, since text may be no UTF-8.
        sql = (
            "SELECT CAST(m.id AS BLOB), CAST(m.conversation_id AS BLOB), CAST(m.role AS BLOB), CAST(m.content AS BLOB),"
            f" {'CAST(m.create_time AS BLOB)' if has_time else 'NULL'}, CAST(c.title AS BLOB)"
            " FROM messages m LEFT JOIN conversations c ON c.id = m.conversation_id"
        )
        given = {}
        if part and _SIMPLE.fullmatch(part):
            sql += _MAY_HOLD
            given["like"] = f"%{part}%"
        database.set_progress_handler(too_late, _STEPS)
        for row in database.execute(sql, given):
            id, conversation, role, content, created, title = map(plain, row)
            text = text_of(content)
            if text:
                yield conversation or "", title or "", Said(id or "", (role or "").strip(), text, moment_of(created))
