"""Word and PowerPoint: `.docx` and `.pptx`, as media of these types.

Kept: the text in paragraphs, the cells of a table with tabs between them, footnotes and endnotes at the end; each slide
of a presentation with its notes; the title, the keywords and the date in the properties of the document.

Left out: pictures, comments, headers and footers, deleted text under revision, and all formatting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

from palaver.importers import Unreadable
from palaver.importers.files.xml_parts import Enough
from palaver.importers.files.zip_documents import Parts, open_parts
from palaver.importers.files.zips import MAGIC
from palaver.importers.item import Item, Skipped, parse_any_time
from palaver.importers.library.item_text import LONGEST_CONTENT, keep_piece, split_keywords, title_from_name
from palaver.model.library import ImportedPiece, Media

name = "office"

_NAME = re.compile(r".+\.(docx|docm|pptx|pptm)", re.IGNORECASE)
_ENCRYPTED = b"\xd0\xcf\x11\xe0"
_SLIDE = re.compile(r"ppt/slides/slide(\d{1,6})\.xml")


def recognises(item: Item, head: bytes) -> bool:
    return bool(_NAME.fullmatch(item.file_name)) and head.startswith((*MAGIC, _ENCRYPTED))


def pieces(item: Item) -> Iterator[ImportedPiece | Skipped]:
    with item.open() as source:
        if source.read(4) == _ENCRYPTED:
            raise Unreadable("encrypted; save it without a password and import it again")
    kind = "pptx" if item.file_name.lower().rpartition(".")[2].startswith("ppt") else "docx"
    with open_parts(item) as parts:
        text = _Text()
        problem = None
        try:
            if kind == "docx":
                names = ["word/document.xml"]
                names += [name for name in ("word/footnotes.xml", "word/endnotes.xml") if name in parts]
            else:
                numbers = sorted(int(found[1]) for name in parts if (found := _SLIDE.fullmatch(name)))
                if not numbers:
                    raise Unreadable("damaged: there are no slides in it")
                folders = ("slides/slide", "notesSlides/notesSlide")
                names = [part for n in numbers for folder in folders if (part := f"ppt/{folder}{n}.xml") in parts]
            for part in names:
                text.take(parts, part)
        except Unreadable as found:
            if not text.blocks:
                raise
            problem = found
        about = _about(parts)
    media = Media(
        title=about.get("title", "").strip() or title_from_name(item),
        media_type=kind,
        content="\n\n".join(text.blocks),
        keywords=tuple(split_keywords(about.get("keywords", ""))),
        created_at=parse_any_time(about.get("created")),
    )
    yield from keep_piece(item, name, media)
    if problem:
        yield Skipped(item.name, f"{problem}; what came before is kept")


class _Text:
    """Collects the paragraphs of the parts."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self._length = 0
        self._line: list[str] = []
        self._row: list[str] = []
        self._cell: list[str] = []
        self._cells = 0
        self._fallback = 0
        self._is_text = False

    def take(self, parts: Parts, name: str) -> None:
        try:
            parts.parse(name, self._start, self._end, self._write)
        finally:
            self._cells = self._fallback = 0
            self._end("p")
            self._end("tr")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "Fallback":  # the same text again, for older programs
            self._fallback += 1
        elif tag == "t":
            self._is_text = True
        elif tag in ("tab", "br", "cr"):
            self._line.append("\t" if tag == "tab" else "\n")
        elif tag == "tc":
            self._cells += 1

    def _end(self, tag: str) -> None:
        if tag == "Fallback":
            self._fallback -= 1
        elif tag == "t":
            self._is_text = False
        elif tag == "p":
            said = "".join(self._line).strip("\n")
            self._line = []
            if self._cells:
                self._cell += [said] if said.strip() else []
            elif said.strip():
                self._add(said)
        elif tag == "tc":
            self._cells -= 1
            self._row.append(" ".join(self._cell))
            self._cell = []
        elif tag == "tr":
            if any(self._row):
                self._add("\t".join(self._row).rstrip("\t"))
            self._row = []

    def _write(self, text: str) -> None:
        if self._is_text and not self._fallback:
            self._line.append(text)

    def _add(self, block: str) -> None:
        self.blocks.append(block)
        self._length += len(block)
        if self._length > LONGEST_CONTENT:
            raise Enough


def _about(parts: Parts) -> dict[str, str]:
    """The properties in `docProps/core.xml`; empty if it is damaged."""
    found: dict[str, str] = {}
    tag = ""

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal tag
        tag = name

    def text(words: str) -> None:
        if tag:
            found[tag] = found.get(tag, "") + words[:1000]

    def end(name: str) -> None:
        nonlocal tag
        tag = ""

    if "docProps/core.xml" in parts:
        with suppress(Unreadable):
            parts.parse("docProps/core.xml", start, end, text)
    return found
