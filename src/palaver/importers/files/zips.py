"""Read zips, and documents that are zips (EPUB, Word, PowerPoint).

Zips are read in memory: nothing is unpacked to disk, names are only shown, and zip bombs are stopped.
"""

from __future__ import annotations

import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO, Literal
from xml.parsers import expat

from palaver.importers import Unreadable
from palaver.importers.files.streams import BOMB, HARMLESS, MOST_TIMES, ReadLimit, count_reads
from palaver.importers.item import Item
from palaver.importers.library.item_text import open_seekable

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
LARGEST_DIRECTORY = 64 * 1024 * 1024  # some hundred thousand files
LARGEST_PART = 64 * 1024 * 1024
CHUNK = 64 * 1024
_TAIL = 66_000
_OUTSIDE = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)|^[/\\]|^[A-Za-z]:[/\\]")

XmlEvent = tuple[Literal["start", "end", "text"], str, dict[str, str]]
"""The start of a tag with its attributes, the end of a tag, or a text. Names have no namespaces."""


class Zip:
    """A zip. It is opened when a file in it is read; after `close` it can be opened again."""

    def __init__(self, size: int, open: Callable[[], IO[bytes]]) -> None:
        self.size = size
        self._open = open
        self._file: IO[bytes] | None = None
        self._zip: zipfile.ZipFile | None = None
        self._limit = ReadLimit(size)

    def close(self) -> None:
        if self._zip is not None:
            self._zip.close()
        if self._file is not None:
            self._file.close()
        self._zip = self._file = None
        self._limit = ReadLimit(self.size)

    def files(self) -> Iterator[zipfile.ZipInfo]:
        """The files in the order of the zip, without folders and the extra files of macOS."""
        for info in sorted(self._opened().infolist(), key=lambda info: info.header_offset):
            names = info.filename.split("/")
            if not info.is_dir() and "__MACOSX" not in names and not names[-1].startswith("._"):
                yield info

    def refusal(self, info: zipfile.ZipInfo) -> str | None:
        """Why this file must not be read; None if it may."""
        if stat.S_ISLNK(info.external_attr >> 16):
            return "a link"
        if _OUTSIDE.search(info.filename):
            return "its name leads out of the zip"
        if info.flag_bits & 0x1:
            return "encrypted; unpack it and import the folder"
        if info.file_size > max(HARMLESS, MOST_TIMES * info.compress_size):
            return BOMB
        return None

    def seekable(self, info: zipfile.ZipInfo) -> IO[bytes]:
        return self._opened().open(info)

    def stream(self, info: zipfile.ZipInfo) -> BinaryIO:
        return count_reads(self._opened().open(info), self._limit.count)  # type: ignore[arg-type]

    def _opened(self) -> zipfile.ZipFile:
        if self._zip is None:
            self._file = self._open()
            _check_directory(self._file)
            self._zip = zipfile.ZipFile(self._file)
        return self._zip


def _check_directory(file: IO[bytes]) -> None:
    """Refuse a zip whose directory would fill the memory."""
    end = file.seek(0, 2)
    file.seek(max(0, end - _TAIL))
    tail = file.read(_TAIL)
    for mark, at, length in ((b"PK\x05\x06", 12, 4), (b"PK\x06\x06", 40, 8)):
        place = tail.rfind(mark)
        size = int.from_bytes(tail[place + at : place + at + length], "little") if place >= 0 else 0
        if size > LARGEST_DIRECTORY and size != 0xFFFFFFFF:
            raise Unreadable("a zip with far too many files")
    file.seek(0)


# Documents: their parts by name, each with a size limit


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
