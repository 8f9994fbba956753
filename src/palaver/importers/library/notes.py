"""Notes: Markdown files, alone, in folders, in Obsidian vaults.

Kept: the text as it stands, wiki links and all, without the front matter; the title (`title` in the front matter, or
the name of the file); as keywords the `tags`, `keywords`, `categories` and `aliases` of the front matter and the
`#tags` in the text that stand in no code; when it was made (`created`, `date` …, or a file name that begins with a
day).

Left out: other properties of the front matter, attached files, `.obsidian`, `.trash` and all other hidden folders, and
notes in which nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from palaver.importers.item import Item, Skipped
from palaver.importers.library import front_matter
from palaver.importers.library.item_text import (
    MOST_KEYWORDS,
    date_in,
    decoded,
    is_text,
    keep,
    listed,
    stem,
    whole,
)
from palaver.model.library import Brought, Note

name = "markdown"

_NAME = re.compile(r".+\.(?:md|markdown|mdown|mkd)", re.IGNORECASE)
LONGEST_LINE = 20_000  # longer ones are data, and nobody puts tags there

_FENCED = re.compile(r"^[ \t]{0,3}(```+|~~~+)")
_BACKTICKS = re.compile(r"`+")
_TAG = re.compile(r"(?<![^\s(])#((?!\d+(?![\w/-]))[\w/-]{1,100})")


def recognises(item: Item, head: bytes) -> bool:
    return bool(_NAME.fullmatch(item.file_name)) and is_text(head)


def pieces(item: Item) -> Iterator[Brought | Skipped]:
    about, content = front_matter.split(decoded(whole(item)))
    title = front_matter.text(about, "title") or stem(item)
    note = Note(
        title=title,
        content=content,
        keywords=(*_given(about), *tags(content)),
        created_at=front_matter.date(about, "created", "created_at", "date", "date created", "creation date")
        or date_in(stem(item)),
    )
    return keep(item, name, note)


def _given(about: dict[str, Any]) -> list[str]:
    found = []
    for key in ("tags", "tag", "keywords", "categories", "aliases", "alias"):
        found += listed(about.get(key))
    return found


def tags(text: str) -> list[str]:
    """The `#tags` in a text: not headings, not numbers, not what stands in code."""
    found: list[str] = []
    fence = ""
    for line in text.splitlines() if "#" in text else ():
        if fenced := _FENCED.match(line):
            if not fence:
                fence = fenced[1]
            elif fenced[1].startswith(fence):
                fence = ""
            continue
        if fence or "#" not in line or len(line) > LONGEST_LINE:
            continue
        found += [tag.strip("/-") for tag in _TAG.findall(_without_code(line) if "`" in line else line)]
        if len(found) > 10 * MOST_KEYWORDS:
            break
    return found


def _without_code(line: str) -> str:
    """The line with a blank for each piece of code: what stands between as many backticks on either side."""
    runs = list(_BACKTICKS.finditer(line))
    last: dict[int, int] = {}
    closing: dict[int, int] = {}
    for number in reversed(range(len(runs))):
        length = len(runs[number][0])
        if length in last:
            closing[number] = last[length]
        last[length] = number
    parts: list[str] = []
    done = next_run = 0
    for number, run in enumerate(runs):
        if number >= next_run and number in closing:
            parts.append(line[done : run.start()])
            done, next_run = runs[closing[number]].end(), closing[number] + 1
    return " ".join([*parts, line[done:]])
