"""Streams: count the bytes that are read, decompress zstd, and stop what unpacks to far too much (zip bombs)."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from palaver.importers import Unreadable

ZSTD = b"\x28\xb5\x2f\xfd"
"""How files begin that are compressed with zstd."""
MOST_TIMES = 250
"""A packed file may unpack to this many times its size. Conversations unpack to twenty times at most."""
HARMLESS = 64 * 1024 * 1024
MOST_BYTES = 64 * 1024**3

BOMB = "it unpacks to far more than a conversation could; nothing more of it is read"


def most_bytes(packed: int) -> int:
    return min(MOST_BYTES, max(HARMLESS, MOST_TIMES * packed))


def limit_reads(source: BinaryIO, *, packed: int) -> BinaryIO:
    """Wrap a stream; it raises Unreadable after more bytes than its packed size allows."""
    left = most_bytes(packed)

    def count(read: int) -> None:
        nonlocal left
        left -= read
        if left < 0:
            raise Unreadable(BOMB)

    return count_reads(source, count)


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
