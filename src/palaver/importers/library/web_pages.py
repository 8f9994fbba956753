"""Web pages: HTML files, as media of the type `html`.

Kept: the text in paragraphs, of <main> or <article> where a page has one; the title; keywords, the day of publication
and the address a page gives for itself (`canonical` is not looked for, `og:url` is).

Left out: scripts, styles, navigation, footers, asides, forms' buttons, pictures, and every link's address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from palaver.importers.files import html_text
from palaver.importers.item import Item, Skipped, moment_of
from palaver.importers.library.item_text import (
    decoded,
    is_text,
    keep,
    listed,
    stem,
    whole,
)
from palaver.model.library import Brought, Media

name = "html"

_DATES = ("article:published_time", "datepublished", "date", "dc.date", "dcterms.created", "og:published_time")
_ADDRESS = re.compile(r"https?://[^\s\"'<>]{1,2000}")


def recognises(item: Item, head: bytes) -> bool:
    return item.file_name.lower().endswith((".html", ".htm", ".xhtml")) and is_text(head)


def pieces(item: Item) -> Iterator[Brought | Skipped]:
    page = html_text.read(text_of(whole(item)))
    address = page.about.get("og:url", "")
    media = Media(
        title=page.about.get("og:title") or page.title or page.heading or stem(item),
        media_type="html",
        content=page.text,
        url=address if _ADDRESS.fullmatch(address) else None,
        keywords=tuple(listed(page.about.get("keywords", ""))),
        created_at=next((at for key in _DATES if (at := moment_of(page.about.get(key)))), None),
    )
    return keep(item, name, media)


def text_of(raw: bytes) -> str:
    encoding = html_text.charset(raw)
    if encoding and not raw.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")) and "utf" not in encoding.lower():
        return raw.decode(encoding, "replace")
    return decoded(raw)
