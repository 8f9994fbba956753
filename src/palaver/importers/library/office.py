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
from palaver.importers.files.zips import MAGIC, Parts, XmlEvent, open_parts
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
        blocks: list[str] = []
        length, problem = 0, None
        try:
            for part in _part_names(parts, kind):
                for block in _blocks(parts, part):
                    blocks.append(block)
                    if (length := length + len(block)) > LONGEST_CONTENT:
                        break
        except Unreadable as found:
            if not blocks:
                raise
            problem = found
        about = _about(parts)
    media = Media(
        title=about.get("title", "").strip() or title_from_name(item),
        media_type=kind,
        content="\n\n".join(blocks),
        keywords=tuple(split_keywords(about.get("keywords", ""))),
        created_at=parse_any_time(about.get("created")),
    )
    yield from keep_piece(item, name, media)
    if problem:
        yield Skipped(item.name, f"{problem}; what came before is kept")


def _part_names(parts: Parts, kind: str) -> list[str]:
    """The parts with text, in the order in which they are read."""
    if kind == "docx":
        notes = ("word/footnotes.xml", "word/endnotes.xml")
        return ["word/document.xml", *(name for name in notes if name in parts)]
    numbers = sorted(int(found[1]) for name in parts if (found := _SLIDE.fullmatch(name)))
    if not numbers:
        raise Unreadable("damaged: there are no slides in it")
    folders = ("slides/slide", "notesSlides/notesSlide")
    return [part for n in numbers for folder in folders if (part := f"ppt/{folder}{n}.xml") in parts]


def _blocks(parts: Parts, name: str) -> Iterator[str]:
    """The paragraphs of a part and the rows of its tables, up to the first damage. Raises Unreadable there."""
    line: list[str] = []
    row: list[str] = []
    cell: list[str] = []
    cells = fallback = 0
    is_text, problem = False, None

    def events() -> Iterator[XmlEvent]:
        nonlocal cells, fallback, problem
        try:
            yield from parts.events(name)
        except Unreadable as found:
            problem = found
        cells = fallback = 0
        yield "end", "p", {}
        yield "end", "tr", {}

    for kind, value, _ in events():
        match kind, value:
            case "text", _:
                line += [value] if is_text and not fallback else []
            case _, "Fallback":  # the same text again, for older programs
                fallback += 1 if kind == "start" else -1
            case _, "t":
                is_text = kind == "start"
            case "start", "tab" | "br" | "cr":
                line.append("\t" if value == "tab" else "\n")
            case "start", "tc":
                cells += 1
            case "end", "p":
                said = "".join(line).strip("\n")
                line = []
                if said.strip() and cells:
                    cell.append(said)
                elif said.strip():
                    yield said
            case "end", "tc":
                cells -= 1
                row.append(" ".join(cell))
                cell = []
            case "end", "tr":
                if any(row):
                    yield "\t".join(row).rstrip("\t")
                row = []
    if problem:
        raise problem


def _about(parts: Parts) -> dict[str, str]:
    """The properties in `docProps/core.xml`; empty if it is damaged."""
    found: dict[str, str] = {}
    tag = ""
    with suppress(Unreadable):
        for kind, value, _ in parts.events("docProps/core.xml") if "docProps/core.xml" in parts else ():
            if kind != "text":
                tag = value if kind == "start" else ""
            elif tag:
                found[tag] = found.get(tag, "") + value[:1000]
    return found
