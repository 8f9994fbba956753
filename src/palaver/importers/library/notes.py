"""Notes: Markdown files, alone, in folders, in Obsidian vaults.

Kept: the text without the front matter, with its wiki links; the title (`title` in the front matter, or the name of the
file); keywords (`tags`, `keywords`, `categories` and `aliases` in the front matter, and `#tags` in the text outside
code); the date (`created`, `date` …, or a date at the start of the file name).

Left out: other properties of the front matter, attached files, `.obsidian`, `.trash` and all other hidden folders, and
empty notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from palaver.importers.item import Item, Skipped
from palaver.importers.library import front_matter, item_text
from palaver.model.library import ImportedPiece, Note

name = "markdown"

KEYWORD_KEYS = ("tags", "tag", "keywords", "categories", "aliases", "alias")

_NAME = re.compile(r".+\.(?:md|markdown|mdown|mkd)", re.IGNORECASE)
LONGEST_LINE = 20_000  # longer lines are data without tags

_FENCED = re.compile(r"^[ \t]{0,3}(```+|~~~+)")
_BACKTICKS = re.compile(r"`+")
_TAG = re.compile(r"(?<![^\s(])#((?!\d+(?![\w/-]))[\w/-]{1,100})")


def recognises(item: Item, head: bytes) -> bool:
    return bool(_NAME.fullmatch(item.file_name)) and item_text.is_text(head)


def pieces(item: Item) -> Iterator[ImportedPiece | Skipped]:
    about, content = front_matter.split(item_text.read_text(item))
    title = front_matter.text(about, "title") or item_text.title_from_name(item)
    note = Note(
        title=title,
        content=content,
        keywords=(*(word for key in KEYWORD_KEYS for word in item_text.split_keywords(about.get(key))), *tags(content)),
        created_at=front_matter.date(about, "created", "created_at", "date", "date created", "creation date")
        or item_text.date_in(item_text.title_from_name(item)),
    )
    return item_text.keep_piece(item, name, note)


def tags(text: str) -> list[str]:
    """The `#tags` in a text, without headings, numbers and code."""
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
        if len(found) > 10 * item_text.MOST_KEYWORDS:
            break
    return found


def _without_code(line: str) -> str:
    """The line with a blank in place of each piece of inline code. As many backticks close it as opened it."""
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
