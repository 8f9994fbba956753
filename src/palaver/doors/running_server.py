"""The address of the server that runs on this data, for processes beside it: `palaver mcp` and the command line.

A server writes `server.json` into PALAVER_HOME and holds a lock on it as long as it lives. The lock tells whether the
server is alive: a process id may belong to another program by now, and a crashed server removes no file.
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

from palaver.settings import Settings

NAME = "server.json"

log = logging.getLogger("palaver")


@contextmanager
def announced(settings: Settings) -> Iterator[None]:
    """While it lasts, others find this server's address. Where several servers share a home, the latest one wins."""
    path = settings.data / NAME
    try:
        file = _written(path, settings)
    except OSError as problem:  # a home on PostgreSQL may be read-only: the server runs without a note
        log.warning("%s cannot be written (%s): 'palaver mcp' does not find this server.", NAME, problem.strerror)
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            if os.path.samestat(os.fstat(file), path.stat()):
                path.unlink()
        os.close(file)


def _written(path: Path, settings: Settings) -> int:
    """The note, locked before anybody can see it."""
    note = {"url": settings.base_url, "host": settings.host, "port": settings.port, "pid": os.getpid()}
    path.parent.mkdir(parents=True, exist_ok=True)
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
    """The address of a live server on the same data, if there is one."""
    try:
        file = os.open(settings.data / NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None  # no server holds the lock
    except BlockingIOError:
        note = json.loads(os.read(file, 65_536))
        return str(note["url"]) if note["data"] == _data(settings) else None
    finally:
        os.close(file)


def _data(settings: Settings) -> str:
    """Tells databases apart. A digest, since the address of a database may hold a password."""
    return hashlib.sha256(settings.database_url.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class BesideServer(Settings):
    """The settings of a process that is no server: links lead to the server that runs now, if any does."""

    @property
    def base_url(self) -> str:
        return self.public_url.rstrip("/") or running_server(self) or super().base_url


def beside_server(settings: Settings) -> Settings:
    return BesideServer(**{knob.name: getattr(settings, knob.name) for knob in fields(Settings)})
