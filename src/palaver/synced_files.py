"""Folders, file names and appended lines that survive a power failure.

Syncing a file saves its content. Its name is an entry of its folder, and the folder must be synced too.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MAKING = threading.Lock()
"""Another thread must not use a new folder before its name is on disk."""


def make_folder(folder: Path) -> None:
    """Create a private folder with its parents. When this returns, their names are on disk."""
    with _MAKING:
        missing = [place for place in (folder, *folder.parents) if not place.is_dir()]
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for place in missing:
            sync_folder(place.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder: the names of new files stay, and those of deleted files do not come back."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Open and lock a file. Try again if it was deleted while this process waited for the lock."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                is_same = os.path.samestat(os.fstat(file), path.stat())
            except FileNotFoundError:
                is_same = False
            if not is_same:
                continue
            if not os.fstat(file).st_size:  # new, by this process or by one that has not synced its name yet
                sync_folder(path.parent)
            yield file
            return
        finally:
            os.close(file)


def append_lines(path: Path, lines: bytes) -> None:
    """Append lines to a file and sync it, under a lock that holds across processes."""
    with locked(path) as file:
        append_whole(file, lines)


def append_whole(file: int, lines: bytes) -> None:
    """Append lines to a locked file, after the end of an incomplete last line. On an error, the file is as before."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        lines = b"\n" + lines
    try:
        left = memoryview(lines)
        while left:
            left = left[os.write(file, left) :]
        os.fsync(file)
    except OSError:
        with suppress(OSError):
            os.ftruncate(file, size)
        raise
