"""Read and write settings files: atomic, with the same mode, through links, and with a record of each change.

The record (`setup.json` in PALAVER_HOME) says what setup wrote and where the backup is. It can contain a token, so only
its owner can read it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from palaver.errors import Conflict, Unavailable

PRIVATE = 0o600
BACKUP = ".palaver-backup"
URLS = ("url", "httpUrl", "serverUrl")
"""The names that clients have for the address in the entry of a server."""


@dataclass
class Written:
    """What setup wrote into one file."""

    client: str
    after: str
    """The digest of the file after the last write. "": other programs have changed it between two runs of setup."""

    server: dict[str, Any] = field(default_factory=dict)
    """The entry of the server as setup wrote it."""

    folders: list[str] = field(default_factory=list)


class Record:
    """What setup wrote on this machine, by path."""

    def __init__(self, home: Path) -> None:
        self.path = home / "setup.json"
        self.files: dict[str, Written] = {}
        try:
            for path, read in json.loads(self.path.read_text("utf-8"))["files"].items():
                for entry in read.pop("entries", ()):  # 0.2 wrote a list of all entries
                    read["server"] = entry["value"] if isinstance(entry["value"], dict) else read.get("server", {})
                self.files[path] = Written(**{one.name: read[one.name] for one in fields(Written) if one.name in read})
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self.files = {}  # Without a record, entries are recognised by what they contain.

    def save(self) -> None:
        if not self.files:
            self.path.unlink(missing_ok=True)
            return
        write(self.path, json.dumps({"files": self.files}, default=vars, indent=1).encode(), mode=PRIVATE)


@contextmanager
def lock(home: Path, seconds: float = 10.0) -> Iterator[None]:
    """Keep a second setup out until this one is done."""
    home.mkdir(parents=True, exist_ok=True)
    file = os.open(home / "setup.lock", os.O_RDWR | os.O_CREAT, PRIVATE)
    try:
        until = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Unavailable("Another 'palaver setup' is running. Wait until it is done.") from None
                time.sleep(0.05)
        yield
    finally:
        os.close(file)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read(path: Path) -> bytes | None:
    """The content of a file. None if there is no file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def backup_path(path: Path) -> Path:
    """Where the file is as it was before setup. Without a backup, setup made the file."""
    return path.with_name(path.name + BACKUP)


def write(path: Path, content: bytes, *, mode: int | None = None, expected: bytes | str | None = "any") -> list[str]:
    """Replace a file at once. A link stays a link, and the file keeps its mode. Returns the folders that were made.

    With `expected`, the file must still have this content.
    """
    target = Path(os.path.realpath(path))
    folders = [one for one in reversed((target.parent, *target.parent.parents)) if not one.exists()]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    new = target.with_name(f".{target.name}.{os.getpid()}.palaver")
    try:
        old = target.stat()
    except FileNotFoundError:
        old = None
    if old and not os.access(target, os.W_OK):  # a replacement would ignore that the file is read-only
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    wanted = mode if mode is not None else stat.S_IMODE(old.st_mode) if old else PRIVATE
    try:
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
        with os.fdopen(file, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(new, wanted)
        if old:
            with suppress(PermissionError):
                os.chown(new, old.st_uid, old.st_gid)
        if expected != "any" and read(target) != expected:
            raise Conflict(f"{path} was changed by another program meanwhile. Run 'palaver setup' again.")
        os.replace(new, target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return [str(folder) for folder in folders]


def remove(path: Path, folders: list[str]) -> None:
    """Delete a file, and the folders that were made for it if they are empty."""
    Path(os.path.realpath(path)).unlink(missing_ok=True)
    for folder in reversed(folders):
        try:
            Path(folder).rmdir()
        except OSError:
            return
