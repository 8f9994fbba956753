"""Plain text: `.txt` files, as media of the type `txt`.

Kept: the unchanged text, with the name of the file as title.

Left out: files in source trees, where they are licences, lists of packages and the like.
"""

from __future__ import annotations

from collections.abc import Iterator

from palaver.importers.item import Item, Skipped
from palaver.importers.library.item_text import (
    date_in,
    decode_text,
    is_text,
    keep_piece,
    read_bytes,
    title_from_name,
)
from palaver.model.library import ImportedPiece, Media

name = "text"


def recognises(item: Item, head: bytes) -> bool:
    return item.file_name.lower().endswith((".txt", ".text")) and is_text(head)


def pieces(item: Item) -> Iterator[ImportedPiece | Skipped]:
    title = title_from_name(item)
    text = decode_text(read_bytes(item))
    return keep_piece(item, name, Media(title=title, media_type="txt", content=text, created_at=date_in(title)))
