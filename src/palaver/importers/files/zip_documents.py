"""Documents that are zips (EPUB, Word, PowerPoint): read their parts by name, each with a size limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Literal
from xml.parsers import expat

from palaver.importers import Unreadable
from palaver.importers.files.zips import Zip
from palaver.importers.item import Item
from palaver.importers.library.item_text import open_seekable

LARGEST_PART = 64 * 1024 * 1024
CHUNK = 64 * 1024

XmlEvent = tuple[Literal["start", "end", "text"], str, dict[str, str]]
"""The start of a tag with its attributes, the end of a tag, or a text. Names have no namespaces."""


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

    def events(self, name: str) -> Iterator[XmlEvent]:
        """Parse a part that is XML."""
        with _telling(), self._open(name) as source:
            yield from _events(source)

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


# XML: no entity definitions, nothing fetched, nothing kept in memory


def _events(source: BinaryIO) -> Iterator[XmlEvent]:
    """The tags and texts up to the first damage. Raises Unreadable there."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    found: list[XmlEvent] = []

    def refuse(*_: object) -> None:
        raise Unreadable("XML that defines entities of its own; nothing more of it is read")

    def begin(name: str, attributes: dict[str, str]) -> None:
        found.append(("start", _local(name), {_local(key): value for key, value in attributes.items()}))

    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda name: found.append(("end", _local(name), {}))
    parser.CharacterDataHandler = lambda text: found.append(("text", text, {}))
    chunk, problem = b"<", None
    while chunk and not problem:
        chunk = source.read(CHUNK)
        try:
            parser.Parse(chunk, not chunk)
        except Unreadable as refused:
            problem = refused
        except (expat.ExpatError, ValueError, LookupError):
            problem = Unreadable("damaged: a part of it is not XML")
        is_open = bool(found) and found[-1][0] == "text"  # where it is damaged, its last text is not complete
        ready, found[:] = found[: len(found) - is_open], found[len(found) - is_open :]
        yield from ready
    if problem:
        raise problem


def _local(name: str) -> str:
    return name.rpartition(" ")[2]
