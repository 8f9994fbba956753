"""Books: `.epub`, as media of the type `epub`.

Kept: the text of all chapters in reading order, in paragraphs; title; authors and subjects as keywords; the date of
publication.

Left out: pictures, the table of contents, styles. A chapter that cannot be read is reported. Books with DRM cannot be
read.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

from palaver.importers import Unreadable
from palaver.importers.files import html_text
from palaver.importers.files.zips import MAGIC, Parts, open_parts
from palaver.importers.item import Item, Skipped, parse_any_time
from palaver.importers.library.item_text import LONGEST_CONTENT, keep_piece, title_from_name
from palaver.importers.library.web_pages import text_of
from palaver.model.library import ImportedPiece, Media

name = "epub"

SIGN = b"mimetypeapplication/epub+zip"
MOST_CHAPTERS = 20_000


def recognises(item: Item, head: bytes) -> bool:
    return head.startswith(MAGIC) and (item.file_name.lower().endswith(".epub") or SIGN in head[:100])


@dataclass
class _Book:
    """The contents of the package file."""

    title: str = ""
    authors: list[str] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)
    date: str = ""
    files: dict[str, str] = field(default_factory=dict)
    contents: set[str] = field(default_factory=set)
    """The ids of tables of contents, which repeat the headings of the chapters."""
    order: list[str] = field(default_factory=list)


def pieces(item: Item) -> Iterator[ImportedPiece | Skipped]:
    with open_parts(item) as parts:
        roots = _values(parts, "META-INF/container.xml", "rootfile", "full-path")
        if not roots:
            raise Unreadable("damaged: it does not say where its chapters are")
        book, folder = _book(parts, roots[0]), posixpath.dirname(roots[0])
        locked: set[str] = set()  # often fonts, which does not matter
        if "META-INF/encryption.xml" in parts:
            locked.update(map(unquote, _values(parts, "META-INF/encryption.xml", "CipherReference", "URI")))
        chapters: list[str] = []
        unread: list[str] = []
        length = 0
        for id in book.order[:MOST_CHAPTERS]:
            file = posixpath.normpath(posixpath.join(folder, unquote(book.files.get(id, ""))))
            if id in book.contents or id not in book.files:
                continue
            if file in locked:
                raise Unreadable("locked (DRM); only a book without such a lock can be read")
            try:
                text = html_text.read_page(text_of(parts.read(file))).text
            except Unreadable as problem:
                unread.append(f"a chapter: {problem}")
                continue
            chapters += [text] if text else []
            length += len(text)
            if length > LONGEST_CONTENT:
                break
    if unread and not chapters:
        raise Unreadable(unread[0].removeprefix("a chapter: "))
    media = Media(
        title=book.title or title_from_name(item),
        media_type="epub",
        content="\n\n".join(chapters),
        keywords=(*book.authors, *book.subjects),
        created_at=parse_any_time(book.date.strip()),
    )
    yield from keep_piece(item, name, media)
    for why in dict.fromkeys(unread):
        yield Skipped(item.name, why, unread.count(why))


def _values(parts: Parts, part: str, wanted: str, attribute: str) -> list[str]:
    """The values of an attribute in all tags of this name."""
    events = parts.events(part)
    return [about[attribute] for kind, tag, about in events if (kind, tag) == ("start", wanted) and attribute in about]


def _book(parts: Parts, root: str) -> _Book:
    book = _Book()
    words: list[str] = []

    for kind, value, attributes in parts.events(root):
        if kind == "text":
            words.append(value)
            continue
        said = " ".join("".join(words).split())[:1000]
        words.clear()
        match kind, value:
            case "start", "item" if "href" in attributes:
                id = attributes.get("id", "")
                book.files[id] = attributes["href"]
                is_list = "nav" in attributes.get("properties", "").split()
                if is_list or attributes.get("media-type", "").endswith("ncx+xml"):
                    book.contents.add(id)
            case "start", "itemref" if attributes.get("linear") != "no":
                book.order.append(attributes.get("idref", ""))
            case "end", "title":
                book.title = book.title or said
            case "end", "creator" if said:
                book.authors.append(said)
            case "end", "subject" if said:
                book.subjects.append(said)
            case "end", "date":
                book.date = book.date or said
    return book
