"""Web pages: HTML files, as media of the type `html`.

Kept: the text in paragraphs, only of <main> or <article> if the page has one; the title; keywords, the date of
publication, and the address in `og:url`.

Left out: scripts, styles, navigation, footers, asides, buttons, pictures, and the addresses of links.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from palaver.importers.files import html_text
from palaver.importers.item import Item, Skipped, parse_any_time
from palaver.importers.library import item_text
from palaver.model.library import ImportedPiece, Media

name = "html"

_DATES = ("article:published_time", "datepublished", "date", "dc.date", "dcterms.created", "og:published_time")
_ADDRESS = re.compile(r"https?://[^\s\"'<>]{1,2000}")


def recognises(item: Item, head: bytes) -> bool:
    return item.file_name.lower().endswith((".html", ".htm", ".xhtml")) and item_text.is_text(head)


def pieces(item: Item) -> Iterator[ImportedPiece | Skipped]:
    page = html_text.read_page(text_of(item_text.read_bytes(item)))
    address = page.about.get("og:url", "")
    media = Media(
        title=page.about.get("og:title") or page.title or page.heading or item_text.title_from_name(item),
        media_type="html",
        content=page.text,
        url=address if _ADDRESS.fullmatch(address) else None,
        keywords=tuple(item_text.split_keywords(page.about.get("keywords", ""))),
        created_at=next((at for key in _DATES if (at := parse_any_time(page.about.get(key)))), None),
    )
    return item_text.keep_piece(item, name, media)


def text_of(raw: bytes) -> str:
    encoding = html_text.charset_of(raw)
    if encoding and not raw.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")) and "utf" not in encoding.lower():
        return raw.decode(encoding, "replace")
    return item_text.decode_text(raw)
