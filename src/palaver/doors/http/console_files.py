"""Files of the console. Their URLs contain a hash of all files, so browsers can cache them forever.

Pages of two versions never mix, because every version has its own hash."""

from __future__ import annotations

import gzip
import hashlib
from contextlib import suppress
from html import escape
from importlib.resources import as_file, files
from pathlib import PurePosixPath

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from palaver.doors.http import login
from palaver.doors.http.js_bundle import bundle, import_from_bundle, modules_of, without_comments
from palaver.errors import PalaverError
from palaver.model.events import encode

TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
ENTRY = "js/app.js"
"""The JavaScript module with which the console starts."""
BUNDLE = "js/start.js"
"""The file that contains ENTRY and all modules it imports."""
STYLE_SHEETS = ("css/base.css", "css/views.css", "css/replay.css")
OWN_CODE = "js/"
"""Files of libraries, in another folder, keep their comments: these name the licence."""
LAZY = "js/views/"
"""Modules in this folder are loaded when their page is opened."""
CACHE_FOREVER = "public, max-age=31536000, immutable"


class Console:
    def __init__(self) -> None:
        with as_file(files("palaver") / "console") as folder:
            found = sorted(path for path in folder.rglob("*") if path.suffix in TYPES)
            self._files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
            page = folder.joinpath("index.html").read_text("utf-8")
        # One file of code and one of styles contain all that the first page needs: each request costs time.
        code = {name: data.decode() for name, data in self._files.items() if name.endswith(".js")}
        code |= {name: without_comments(text) for name, text in code.items() if name.startswith(OWN_CODE)}
        bundled = modules_of(code, ENTRY)
        made = {
            name: import_from_bundle(name, text, bundled, BUNDLE)
            for name, text in code.items()
            if name.startswith(LAZY)
        }
        made[BUNDLE] = bundle(code, bundled)
        self._files |= {name: text.encode() for name, text in made.items()}
        self._files["css/all.css"] = b"".join(self._files[name] for name in STYLE_SHEETS)
        self._compressed: dict[str, bytes] = {}
        content = hashlib.sha256()
        for name, data in self._files.items():
            content.update(name.encode() + b"\0" + data)
        self._hash = content.hexdigest()[:12]
        self._page = page.replace("{stamp}", self._hash)

    async def home(self, request: Request) -> Response:
        """The page, with the answer of GET /api/session in it.

        This saves a request. The session's last event id is read before any list, so the page misses no event.
        """
        session = {}
        with suppress(PalaverError):
            session = await login.session_info(request)
        return HTMLResponse(self._page.replace("{session}", escape(encode(session).decode())))

    async def file(self, request: Request) -> Response:
        path = request.path_params["path"]
        has_hash = path.startswith(f"{self._hash}/")
        name = path.partition("/")[2] if has_hash else path
        data = self._files.get(name)
        if data is None:
            raise HTTPException(404)
        headers = {"cache-control": CACHE_FOREVER if has_hash else "no-cache", "vary": "accept-encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            if name not in self._compressed:
                self._compressed[name] = gzip.compress(data, mtime=0)
            data, headers["content-encoding"] = self._compressed[name], "gzip"
        return Response(data, headers=headers, media_type=TYPES[PurePosixPath(name).suffix])
