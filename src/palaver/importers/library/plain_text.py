"""Plain text: `.txt` files, as media of the type `txt`.

Kept: the text as it stands, under the name of the file. In the folders of a program's code they are left out, for there
they are lists of packages, licences and the like.
"""

from __future__ import annotations

from collections.abc import Iterator

from palaver.importers.item import Item, Skipped
from palaver.importers.library.item_text import (
    date_in,
    decoded,
    is_text,
    keep,
    stem,
    whole,
)
from palaver.model.library import Brought, Media

name = "text"


def recognises(item: Item, head: bytes) -> bool:
    return item.file_name.lower().endswith((".txt", ".text")) and is_text(head)


def pieces(item: Item) -> Iterator[Brought | Skipped]:
    title = stem(item)
    text = decoded(whole(item))
    return keep(item, name, Media(title=title, media_type="txt", content=text, created_at=date_in(title)))
