"""Files of lines, plain or compressed with zstd, of any length and with any kind of line in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from typing import BinaryIO

from palaver.importers.files import zstd
from palaver.importers.files.stream_limits import count_reads, limit_reads
from palaver.importers.item import Item, Skipped

LONGEST_LINE = 32 * 1024 * 1024


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


def skip_line(item: Item, line: bytes, problem: Exception) -> Skipped:
    """Report a line that cannot be read."""
    is_torn = not line.endswith(b"\n")
    return Skipped(item.name, "the last line is not complete" if is_torn else f"a line that is {problem}")


@contextmanager
def open_unpacked(item: Item) -> Iterator[BinaryIO]:
    """Open the file, and decompress it if it is compressed with zstd."""
    with count_reads(item.open(), lambda read: None) as source:
        if not source.peek(4).startswith(zstd.MAGIC):
            yield source
            return
        with limit_reads(BufferedReader(zstd.Unpacked(source)), packed=item.size) as unpacked:
            yield unpacked
