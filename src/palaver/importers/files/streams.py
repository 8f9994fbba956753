"""Streams and lines: count the bytes that are read, decompress zstd, stop what unpacks to far too much (zip bombs)."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from palaver.importers import Unreadable, object_in, parse_object
from palaver.importers.item import HEAD_BYTES, Item, Skipped

ZSTD = b"\x28\xb5\x2f\xfd"
"""How files begin that are compressed with zstd."""
MOST_TIMES = 250
"""A packed file may unpack to this many times its size. Conversations unpack to twenty times at most."""
HARMLESS = 64 * 1024 * 1024
MOST_BYTES = 64 * 1024**3

LONGEST_LINE = 32 * 1024 * 1024
MOST_BAD_LINES = 100
"""How many lines that cannot be read may come before the first one that shows which format a file has."""

BOMB = "it unpacks to far more than a conversation could; nothing more of it is read"


class ReadLimit:
    """Counts the bytes that come out of a packed file. It raises Unreadable if they are far too many for its size."""

    def __init__(self, packed: int) -> None:
        self._left = min(MOST_BYTES, max(HARMLESS, MOST_TIMES * packed))

    def count(self, read: int) -> None:
        self._left -= read
        if self._left < 0:
            raise Unreadable(BOMB)


def count_reads(source: BinaryIO, count: Callable[[int], None]) -> io.BufferedReader:
    """Wrap a stream; `count` gets the size of each read, and may raise to stop it."""
    return io.BufferedReader(_Counted(source, count), 1024 * 1024)


class _Counted(io.RawIOBase):
    def __init__(self, source: BinaryIO, count: Callable[[int], None]) -> None:
        self._source = source
        self._count = count

    def readable(self) -> bool:
        return True

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]
        piece = self._source.read(len(into))
        into[: len(piece)] = piece
        self._count(len(piece))
        return len(piece)

    def close(self) -> None:
        self._source.close()
        super().close()


class Unpacked(io.RawIOBase):
    """A stream that is decompressed with zstd. It raises Unreadable where the data is damaged or incomplete."""

    def __init__(self, source: BinaryIO | Path) -> None:
        if sys.version_info >= (3, 14):  # before, there is a backport
            from compression import zstd
        else:
            from backports import zstd
        self._damage = zstd.ZstdError
        self._file = zstd.open(source, "rb")

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            found: bytes = self._file.read1(size)
            return found
        except EOFError:
            raise Unreadable("not complete") from None
        except self._damage:
            raise Unreadable("damaged") from None

    def readinto(self, into: memoryview) -> int:  # type: ignore[override]
        found = self.read(len(into))
        into[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def open_unpacked(item: Item) -> Iterator[BinaryIO]:
    """Open the file, and decompress it if it is compressed with zstd."""
    with count_reads(item.open(), lambda read: None) as source:
        if not source.peek(4).startswith(ZSTD):
            yield source
            return
        with count_reads(io.BufferedReader(Unpacked(source)), ReadLimit(item.size).count) as unpacked:
            yield unpacked


# Files of lines, of any length and with any kind of line in them


def lines(item: Item) -> Iterator[bytes | Skipped]:
    """Each line, also an incomplete last one; Skipped for one that is too long."""
    with open_unpacked(item) as source:
        while raw := source.readline(LONGEST_LINE + 1):
            if len(raw) <= LONGEST_LINE:
                yield raw
                continue
            yield Skipped(item.name, "a line of more than 32 MB")
            while raw and not raw.endswith(b"\n"):
                raw = source.readline(LONGEST_LINE)


def head_after_damage(item: Item) -> bytes:
    """The first bytes of a file of lines from its first JSON object on; empty if it has none near its start."""
    found, bad = b"", 0
    for line in lines(item):
        if found:
            found += line if isinstance(line, bytes) else b""
        elif isinstance(line, bytes) and object_in(line):
            found = line
        elif (bad := bad + 1) > MOST_BAD_LINES:
            break
        if len(found) >= HEAD_BYTES:
            break
    return found[:HEAD_BYTES]


def objects_in_lines(item: Item) -> Iterator[dict[str, Any] | Skipped]:
    """The JSON object of each line that is not blank; Skipped for a line that has none."""
    for line in lines(item):
        if isinstance(line, Skipped):
            yield line
        elif line.strip():
            try:
                yield parse_object(line)
            except Unreadable as problem:
                is_torn = not line.endswith(b"\n")
                yield Skipped(item.name, "the last line is not complete" if is_torn else f"a line that is {problem}")


def open_beside(path: Path) -> BinaryIO:
    """Open a file beside one that is imported. A link is not followed, because it may lead out of the folder."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
