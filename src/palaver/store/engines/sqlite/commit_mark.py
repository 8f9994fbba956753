"""A mark of the last commit in a small file beside the database, by which a lost write-ahead log is noticed.

The mark has the numbers and checksums of the first and the last page of the last commit, and of the first page of the
last commit that stored texts or events: a commit may write pages without changing them. It is written after each commit
and not synced. It is read only if a process ended without closing the file, and the log is missing. Then the pages in
the file tell whether the commits were copied into it. A process that closes the file properly removes the mark.
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path

_MARK = struct.Struct(">III")
"""The size of a page, the number of the page, and its checksum."""
_LOG_HEADER, _FRAME_HEADER = 32, 24


def path_of(path: Path) -> Path:
    return path.with_name(path.name + "-commit")


def is_contradicted(path: Path) -> bool:
    """Does the database file lack the last commit? Ask this only if there is no log."""
    try:
        marks = list(_MARK.iter_unpack(path_of(path).read_bytes()))
        with path.open("rb") as file:
            for size, number, checksum in marks:
                file.seek((number - 1) * size)
                if zlib.crc32(file.read(size)) != checksum:
                    return True
    except (OSError, ValueError, struct.error):  # there is no mark, or it was not written completely
        pass
    return False


def forget(path: Path) -> None:
    """Empty the mark, because the file was written in another way. Processes that have it open can write it again."""
    with suppress(OSError):
        os.truncate(path_of(path), 0)


class CommitMark:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = self._pages = 0
        self._log = self._file = -1
        self._first = self._last = self._stored = b""

    def write(self, pages: int) -> None:
        """Mark the commit after which the log has this many pages. An error is ignored: nothing depends on the mark."""
        with suppress(OSError, struct.error):
            if self._file < 0:
                self._log = os.open(f"{self._path}-wal", os.O_RDONLY)
                self._size = int.from_bytes(os.pread(self._log, 4, 8))
                self._file = os.open(path_of(self._path), os.O_WRONLY | os.O_CREAT, 0o600)
            first = self._pages if pages > self._pages else 0  # the log may have begun anew
            self._first, self._last, self._pages = self._mark_of(first), self._mark_of(pages - 1), pages
            if self._first[:8] == self._stored[:8]:  # the same page is newer now
                self._stored = self._first
            os.pwrite(self._file, self._first + self._last + self._stored, 0)

    def keep(self) -> None:
        """Keep the mark of the last commit until the next commit that stores texts or events."""
        with suppress(OSError):
            if self._file >= 0:
                self._stored = self._first
                os.pwrite(self._file, self._first + self._last + self._stored, 0)

    def _mark_of(self, frame: int) -> bytes:
        size = _FRAME_HEADER + self._size
        raw = os.pread(self._log, size, _LOG_HEADER + frame * size)
        return _MARK.pack(self._size, int.from_bytes(raw[:4]), zlib.crc32(memoryview(raw)[_FRAME_HEADER:]))

    def close(self) -> None:
        """Call this after the last connection is closed. If SQLite has removed the log, all of it is in the file."""
        for file in (self._log, self._file):
            if file >= 0:
                os.close(file)
        self._log = self._file = -1
        if not os.path.exists(f"{self._path}-wal"):
            path_of(self._path).unlink(missing_ok=True)
