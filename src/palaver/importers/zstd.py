"""Files compressed with zstd, where Python has no codec of its own (it has one since 3.14): by the system's libzstd.

The library is part of nearly every system; where it is not, `codec` finds none.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import io
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, BinaryIO

from palaver.importers import Unreadable

PIECE = 256 * 1024


class _Buffer(ctypes.Structure):
    """`ZSTD_inBuffer` and `ZSTD_outBuffer` look alike."""

    _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t)]


@cache
def _library() -> ctypes.CDLL | None:
    for name in (ctypes.util.find_library("zstd"), "libzstd.so.1", "libzstd.dylib"):
        if not name:
            continue
        try:
            library = ctypes.CDLL(name)
            library.ZSTD_createDStream.restype = ctypes.c_void_p
            library.ZSTD_freeDStream.argtypes = [ctypes.c_void_p]
            library.ZSTD_decompressStream.restype = ctypes.c_size_t
            library.ZSTD_decompressStream.argtypes = [ctypes.c_void_p] + [ctypes.POINTER(_Buffer)] * 2
            library.ZSTD_isError.argtypes = [ctypes.c_size_t]
            return library
        except (OSError, AttributeError):
            continue
    return None


class Unpacked(io.RawIOBase):
    """The stream, unpacked. Unreadable where it is damaged or ends too early."""

    def __init__(self, source: BinaryIO, mode: str = "rb") -> None:
        library = _library()
        assert library is not None
        self._library, self._source = library, source
        self._stream: int | None = library.ZSTD_createDStream()
        self._raw = b""
        self._given = _Buffer(None, 0, 0)
        self._is_whole = True

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        room = ctypes.create_string_buffer(PIECE if size < 0 else min(size, PIECE))
        into = _Buffer(ctypes.addressof(room), len(room), 0)
        while not into.position:
            if self._given.position == self._given.size and not self._refill():
                if self._is_whole:
                    return b""
                raise Unreadable("not complete")
            left = self._library.ZSTD_decompressStream(self._stream, ctypes.byref(into), ctypes.byref(self._given))
            if self._library.ZSTD_isError(left):
                raise Unreadable("damaged")
            self._is_whole = left == 0
        return room.raw[: into.position]

    def _refill(self) -> bool:
        self._raw = self._source.read(PIECE)
        self._given = _Buffer(ctypes.cast(ctypes.c_char_p(self._raw), ctypes.c_void_p), len(self._raw), 0)
        return bool(self._raw)

    def close(self) -> None:
        if self._stream is not None:
            self._library.ZSTD_freeDStream(self._stream)
            self._stream = None
        super().close()


def codec() -> Callable[..., Any] | None:
    """What opens a .zst file: of this Python, of a package, of the system."""
    for module in ("compression.zstd", "zstandard"):
        try:
            opens: Callable[..., Any] = import_module(module).open
            return opens
        except ImportError:
            continue
    return Unpacked if _library() is not None else None
