"""Read zips in memory: nothing is unpacked to disk, names are only shown, and zip bombs are stopped."""

from __future__ import annotations

import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, BinaryIO

from palaver.importers import Unreadable
from palaver.importers.files.streams import BOMB, HARMLESS, MOST_TIMES, ReadLimit, count_reads

MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
LARGEST_DIRECTORY = 64 * 1024 * 1024  # some hundred thousand files
_TAIL = 66_000
_OUTSIDE = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|$)|^[/\\]|^[A-Za-z]:[/\\]")


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
