"""Read files compressed with zstd: with Python's own module since 3.14, with its backport before."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import BinaryIO

from palaver.importers import Unreadable

MAGIC = b"\x28\xb5\x2f\xfd"


class Unpacked(io.RawIOBase):
    """The decompressed stream. It raises Unreadable where the data is damaged or incomplete."""

    def __init__(self, source: BinaryIO | Path) -> None:
        if sys.version_info >= (3, 14):
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
