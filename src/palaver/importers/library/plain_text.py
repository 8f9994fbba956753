"""Plain text: `.txt` files, as media of the type `txt`.

Kept: the unchanged text, with the name of the file as title.

Left out: files in source trees, where they are licences, lists of packages and the like.
"""

from __future__ import annotations

from collections.abc import Iterator

from palaver.importers.item import Item, Skipped
from palaver.importers.library import item_text
from palaver.model.library import ImportedPiece, Media

name = "text"


def recognises(item: Item, head: bytes) -> bool:
    return item.file_name.lower().endswith((".txt", ".text")) and item_text.is_text(head)


def pieces(item: Item) -> Iterator[ImportedPiece | Skipped]:
    title = item_text.title_from_name(item)
    text = item_text.read_text(item)
    return item_text.keep_piece(
        item, name, Media(title=title, media_type="txt", content=text, created_at=item_text.date_in(title))
    )
