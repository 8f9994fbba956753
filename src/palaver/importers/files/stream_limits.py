"""Streams that are watched while they are read: how far one has come, and whether a small file unpacks without end."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO

from palaver.importers import Unreadable

MOST_TIMES = 250
"""A packed file may unpack to this many times its size. Conversations come to twenty at most."""
HARMLESS = 64 * 1024 * 1024
MOST_BYTES = 64 * 1024**3

BOMB = "it unpacks to far more than a conversation could; nothing more of it is read"


def most_of(packed: int) -> int:
    return min(MOST_BYTES, max(HARMLESS, MOST_TIMES * packed))


def limited(source: BinaryIO, *, packed: int) -> BinaryIO:
    """The same stream; Unreadable once it has given more than its packed size allows."""
    left = most_of(packed)

    def count(read: int) -> None:
        nonlocal left
        left -= read
        if left < 0:
            raise Unreadable(BOMB)

    return counted(source, count)


def counted(source: BinaryIO, count: Callable[[int], None]) -> io.BufferedReader:
    """The same stream; `count` is told of each piece, and may end it by raising."""
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
