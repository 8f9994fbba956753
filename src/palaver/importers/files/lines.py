"""Files of lines, plain or compressed with zstd, of any length and with any kind of line in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from palaver.importers import object_in
from palaver.importers.files import streams
from palaver.importers.files.streams import count_reads, limit_reads
from palaver.importers.item import HEAD_BYTES, Item, Skipped

LONGEST_LINE = 32 * 1024 * 1024
MOST_BAD_LINES = 100
"""How many lines that cannot be read may come before the first one that shows which format a file has."""


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


def skip_line(item: Item, line: bytes, problem: Exception) -> Skipped:
    """Report a line that cannot be read."""
    is_torn = not line.endswith(b"\n")
    return Skipped(item.name, "the last line is not complete" if is_torn else f"a line that is {problem}")


def open_beside(path: Path) -> BinaryIO:
    """Open a file beside one that is imported. A link is not followed, because it may lead out of the folder."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


@contextmanager
def open_unpacked(item: Item) -> Iterator[BinaryIO]:
    """Open the file, and decompress it if it is compressed with zstd."""
    with count_reads(item.open(), lambda read: None) as source:
        if not source.peek(4).startswith(streams.ZSTD):
            yield source
            return
        with limit_reads(BufferedReader(streams.Unpacked(source)), packed=item.size) as unpacked:
            yield unpacked
