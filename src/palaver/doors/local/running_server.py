"""Find the server that runs on the same data, for `palaver mcp` and the command line.

A server writes `server.json` into PALAVER_HOME and keeps a lock on it. The lock shows that the server is alive: a
process id could belong to another program, and a crashed server does not remove the file.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from palaver.settings import Settings
from palaver.synced_files import make_folder

NAME = "server.json"

log = logging.getLogger("palaver")


@contextmanager
def announce(settings: Settings) -> Iterator[None]:
    """Let other processes find this server. If several servers share a home, the latest one is found."""
    path = settings.data / NAME
    try:
        file = _write_note(path, settings)
    except OSError as problem:  # with PostgreSQL the home can be read-only
        log.warning("%s cannot be written (%s): 'palaver mcp' will not find this server.", NAME, problem.strerror)
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            if os.path.samestat(os.fstat(file), path.stat()):
                path.unlink()
        os.close(file)


def _write_note(path: Path, settings: Settings) -> int:
    """Write and lock the file, then move it into place. Returns its descriptor."""
    note = {"url": settings.base_url, "host": settings.host, "port": settings.port, "pid": os.getpid()}
    make_folder(path.parent)
    new = path.with_name(f"{NAME}.{os.getpid()}")
    file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.write(file, json.dumps(note | {"data": _data(settings)}).encode())
        new.replace(path)
    except OSError:
        os.close(file)
        new.unlink(missing_ok=True)
        raise
    return file


def running_server(settings: Settings) -> str | None:
    """The URL of a live server on the same data, if there is one."""
    note = running_note(settings)
    return str(note["url"]) if note else None


def running_note(settings: Settings) -> dict[str, Any] | None:
    """The url, host and port of a live server on the same data, if there is one."""
    try:
        file = os.open(settings.data / NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None  # no server holds the lock
    except BlockingIOError:
        note: dict[str, Any] = json.loads(os.read(file, 65_536))
        return note if note["data"] == _data(settings) else None
    finally:
        os.close(file)


def _data(settings: Settings) -> str:
    """A digest that identifies the database. The URL itself could contain a password."""
    return hashlib.sha256(settings.database_url.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class ClientSettings(Settings):
    """Settings of a process that is not a server: links point to the running server, if there is one."""

    @property
    def base_url(self) -> str:
        return self.public_url.rstrip("/") or running_server(self) or super().base_url


def client_settings(settings: Settings) -> Settings:
    return ClientSettings(**{field.name: getattr(settings, field.name) for field in fields(Settings)})
