"""Folders and file names that survive a power failure.

Syncing a file saves its content. Its name is an entry of its folder, and the folder must be synced too.
"""

from __future__ import annotations

import os
import threading
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
