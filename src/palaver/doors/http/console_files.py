"""The console's files. They stand under a stamp made from what is in them, so a browser may keep each of them for ever
and still never mixes two versions."""

from __future__ import annotations

import gzip
import hashlib
from contextlib import suppress
from html import escape
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from palaver.doors.http import login
from palaver.doors.http.js_bundle import joined, rewired
from palaver.errors import PalaverError
from palaver.model.events import encode

TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
FIRST, TOGETHER = "js/app.js", "js/start.js"
"""The module the console begins with, and the file in which it stands with all it needs."""
SHEETS = ("css/base.css", "css/views.css")
APART = "js/views/"
FOR_EVER = "public, max-age=31536000, immutable"


class Console:
    def __init__(self) -> None:
        with as_file(files("palaver") / "console") as folder:
            self._read(folder)

    def _read(self, folder: Path) -> None:
        found = sorted(path for path in folder.rglob("*") if path.suffix in TYPES)
        self._files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
        self._join()
        self._packed = {name: gzip.compress(data, mtime=0) for name, data in self._files.items()}
        whole = hashlib.sha256()
        for name, data in self._files.items():
            whole.update(name.encode() + b"\0" + data)
        self._stamp = whole.hexdigest()[:12]
        self._home = folder.joinpath("index.html").read_text("utf-8").replace("{stamp}", self._stamp)

    def _join(self) -> None:
        """What is needed to read a thread comes in one file of code and one of looks: each file asked for costs more
        time than what is in it. The other places come when somebody goes there."""
        code = {name: data.decode() for name, data in self._files.items() if name.endswith(".js")}
        made = {
            name: rewired(name, text, code, FIRST, TOGETHER) for name, text in code.items() if name.startswith(APART)
        }
        made[TOGETHER] = joined(code, FIRST)
        self._files |= {name: text.encode() for name, text in made.items()}
        self._files["css/all.css"] = b"".join(self._files[name] for name in SHEETS)

    async def home(self, request: Request) -> Response:
        """The page, with what GET /api/session would say: that need not be asked for then, and it was read before any
        list is, so that no event falls between them."""
        said = {}
        with suppress(PalaverError):
            said = await login.said(request)
        return HTMLResponse(self._home.replace("{session}", escape(encode(said).decode())))

    async def file(self, request: Request) -> Response:
        path = request.path_params["path"]
        is_stamped = path.startswith(f"{self._stamp}/")
        name = path.partition("/")[2] if is_stamped else path
        data = self._files.get(name)
        if data is None:
            raise HTTPException(404)
        headers = {"cache-control": FOR_EVER if is_stamped else "no-cache", "vary": "accept-encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            data, headers["content-encoding"] = self._packed[name], "gzip"
        return Response(data, headers=headers, media_type=TYPES[PurePosixPath(name).suffix])
