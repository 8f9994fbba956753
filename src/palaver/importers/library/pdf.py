"""PDF files, as media of the type `pdf`.

Kept: the text page by page, with a blank line between pages; words that were hyphenated at the end of a line are
joined; title, keywords and date from the properties of the file.

Left out: pictures, and so the text of scanned pages; forms; attachments; pages that cannot be read or take too long,
which are counted. Files with a password cannot be read.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from palaver.importers import Unreadable
from palaver.importers.item import Item, Skipped
from palaver.importers.library import item_text
from palaver.importers.library.item_text import LONGEST_CONTENT
from palaver.model.library import ImportedPiece, Media

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

name = "pdf"

LARGEST_FILE = 512 * 1024 * 1024
LARGEST_PAGE = 8 * 1024 * 1024
"""The most bytes of the content stream of a page, decompressed. A page of plain text has some kilobytes."""
MOST_PAGES = 20_000
SECONDS = 120.0
SECONDS_A_PAGE = 10.0

_HYPHEN = re.compile(r"(?<=[^\W\d_])[-\u00ad\u2010]\n(?=[^\W\d_A-Z])")
_SPACES = re.compile(r"(?<![ \t])[ \t]+\n")
_UNTITLED = re.compile(
    r"(?:microsoft word - )?(?:untitled|document|unbenannt).{0,4}|.*\.(?:docx?|indd|dvi|tex|qxd|pptx?)", re.IGNORECASE
)


def recognises(item: Item, head: bytes) -> bool:
    return b"%PDF-" in head[:1024] and (head.startswith(b"%PDF-") or item.file_name.lower().endswith(".pdf"))


def pieces(item: Item) -> Iterator[ImportedPiece | Skipped]:
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # problems of a file are reported in our own words
    if item.size > LARGEST_FILE:
        raise Unreadable("a file of more than 512 MB")
    texts: list[str] = []
    unread: Counter[str] = Counter()
    with item_text.open_seekable(item) as source:
        try:
            reader = pypdf.PdfReader(source)
            if reader.is_encrypted and not reader.decrypt(""):
                raise Unreadable("encrypted; save it without a password and import it again")
            about = _about(reader)
            for text in _pages(reader, unread):
                texts.append(text)
        except Unreadable:
            raise
        except Exception as problem:  # pypdf raises many kinds of errors for damaged files
            is_large = isinstance(problem, MemoryError)
            why = "too large for the memory there is" if is_large else "damaged, or not a PDF that is known here"
            if not texts:
                raise Unreadable(why) from None
            unread[f"the rest of it, which is {why}"] += 1
            about = {}
    if not any(texts) and not unread:
        raise Unreadable("there is no text in it, only pictures")
    title = about.get("title", "")
    media = Media(
        title=title if title and not _UNTITLED.fullmatch(title) else item_text.title_from_name(item),
        media_type="pdf",
        content="\n\n".join(text for text in texts if text),
        keywords=tuple(item_text.split_keywords(about.get("keywords", ""))),
        created_at=about.get("created"),
    )
    yield from item_text.keep_piece(item, name, media)
    for why, count in unread.items():
        yield Skipped(item.name, why, count)


def _pages(reader: PdfReader, unread: Counter[str]) -> Iterator[str]:
    end = time.monotonic() + SECONDS
    length = 0
    for number in range(min(len(reader.pages), MOST_PAGES)):
        if time.monotonic() > end or length > LONGEST_CONTENT:
            unread["pages at the end of a very long document"] += len(reader.pages) - number
            return
        try:
            text = _page(reader.pages[number], min(end, time.monotonic() + SECONDS_A_PAGE))
        except _TooLong:
            unread["a page that takes too long to read"] += 1
        except Unreadable as problem:
            unread[str(problem)] += 1
        except Exception:
            unread["a page that is damaged"] += 1
        else:
            length += len(text)
            yield text


class _TooLong(Exception):
    pass


def _page(page: PageObject, end: float) -> str:
    def look_at_the_clock(*_: Any) -> None:
        if time.monotonic() > end:
            raise _TooLong

    contents = page.get_contents()
    if contents is None:
        return ""
    if len(contents.get_data()) > LARGEST_PAGE:
        raise Unreadable("a page that is drawn with more than 8 MB")
    text = page.extract_text(visitor_operand_before=look_at_the_clock)
    return _HYPHEN.sub("", _SPACES.sub("\n", text.replace("\r\n", "\n"))).strip()


def _about(reader: PdfReader) -> dict[str, Any]:
    """The title, keywords and date of the file; empty if they are damaged."""
    found: dict[str, Any] = {}
    try:
        given = reader.metadata
        for key, value in (("title", given.title), ("keywords", given.keywords)) if given else ():
            if isinstance(value, str) and value.strip("\x00 "):
                found[key] = " ".join(value.split())
        if given and isinstance(at := given.creation_date, datetime):
            found["created"] = at
    except Exception:
        pass
    return found
