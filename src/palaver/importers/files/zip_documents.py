"""Documents that are zips (EPUB, Word, PowerPoint): read their parts by name, each with a size limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from palaver.importers import Unreadable
from palaver.importers.files.xml_parts import End, Start, Text, parse
from palaver.importers.files.zips import Zip
from palaver.importers.item import Item
from palaver.importers.library.item_text import open_seekable

LARGEST_PART = 64 * 1024 * 1024


class Parts:
    def __init__(self, archive: Zip) -> None:
        self._archive = archive
        self._infos = {info.filename: info for info in archive.files()}

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def _open(self, name: str) -> BinaryIO:
        info = self._infos.get(name)
        if info is None:
            raise Unreadable("damaged: a part of it is missing")
        if refusal := self._archive.refusal(info):
            raise Unreadable("encrypted" if refusal.startswith("encrypted") else refusal)
        return self._archive.stream(info)

    def parse(self, name: str, start: Start, end: End, text: Text) -> None:
        """Parse a part that is XML."""
        with _telling(), self._open(name) as source:
            parse(source, start, end, text)

    def read(self, name: str) -> bytes:
        with _telling(), self._open(name) as source:
            raw = source.read(LARGEST_PART + 1)
        if len(raw) > LARGEST_PART:
            raise Unreadable("a part of more than 64 MB")
        return raw


@contextmanager
def open_parts(item: Item) -> Iterator[Parts]:
    with open_seekable(item) as source:
        with _telling():
            source.seek(0)
            parts = Parts(Zip(item.size, lambda: source))
        yield parts


@contextmanager
def _telling() -> Iterator[None]:
    try:
        yield
    except (Unreadable, MemoryError):
        raise
    except Exception:  # zipfile raises many kinds of errors for damaged zips
        raise Unreadable("damaged or not complete") from None
