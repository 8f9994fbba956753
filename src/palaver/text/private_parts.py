"""Parts of a text that its author keeps out: `<private>…</private>`. They are removed before the text is stored."""

from __future__ import annotations

import re

MARK = "[private]"
"""The text that replaces a private part."""
# Inside JSON a slash may be written as `\/`.
_TAG = re.compile(r"<(\\?/)?private(?:\s[^<>]*)?>", re.IGNORECASE)


def without_private_parts(text: str) -> str:
    """The text with a mark instead of each private part. A part that is not closed ends with the text."""
    kept: list[str] = []
    depth = start = 0
    for tag in _TAG.finditer(text):
        if not tag[1]:
            if not depth:
                kept += text[start : tag.start()], MARK
            depth += 1
        elif depth:
            depth -= 1
            start = tag.end()
    return "".join([*kept, "" if depth else text[start:]])
