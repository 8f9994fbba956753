"""Find the server that runs on the same data, for `palaver mcp` and the command line.

A server writes `server.json` into PALAVER_HOME. It is alive if it accepts connections on its socket: a process id could
belong to another program, and a crashed server does not remove the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from dataclasses import dataclass, fields
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from palaver.doors.local.server_socket import ANSWER_SECONDS, ShortPath
from palaver.settings import LOOPBACK, Settings

NAME = "server.json"


def note_of(settings: Settings) -> dict[str, Any]:
    """The content of the file."""
    note = {"url": settings.base_url, "host": settings.host, "port": settings.port, "pid": os.getpid()}
    return note | {"data": _data(settings)}


def running_server(settings: Settings) -> str | None:
    """The URL of a live server on the same data, if there is one."""
    note = running_note(settings)
    return str(note["url"]) if note else None


def running_note(settings: Settings) -> dict[str, Any] | None:
    """The url, host and port of a live server on the same data, if there is one."""
    try:
        note: dict[str, Any] = json.loads((settings.data / NAME).read_bytes())
        with socket.socket(socket.AF_UNIX) as sock, ShortPath(str(settings.data)) as path:
            sock.settimeout(ANSWER_SECONDS)
            sock.connect(path)
    except (OSError, ValueError):
        return None  # no server listens
    return note if note.get("data") == _data(settings) else None


def answer_of(url: str, path: str, host: str = "") -> dict[str, Any] | None:
    """The JSON object that a server answers with, in any state; None if there is none. `host` replaces its name."""
    parts = urlsplit(url)
    opener = build_opener(*([ProxyHandler({})] if parts.hostname in LOOPBACK else []))  # no proxy for this machine
    request = Request(url + path, headers={"Host": host or parts.netloc, "Accept": "application/json"})
    try:
        try:
            answer = opener.open(request, timeout=ANSWER_SECONDS)
        except HTTPError as problem:
            answer = problem
        with answer:
            found = json.loads(answer.read(1_000_000))
    except (OSError, ValueError, HTTPException):
        return None
    return found if isinstance(found, dict) else None


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
