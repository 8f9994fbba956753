"""The console's files. They stand under a stamp made from what is in them, so a browser may keep each of them for ever
and still never mixes two versions."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import as_file, files
from pathlib import Path, PurePosixPath

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
LATER = ("js/theme.js", "js/stream-worker.js", "js/places/")
FOR_EVER = "public, max-age=31536000, immutable"


class Console:
    def __init__(self) -> None:
        with as_file(files("palaver") / "console") as folder:
            self._read(folder)

    def _read(self, folder: Path) -> None:
        found = sorted(path for path in folder.rglob("*") if path.suffix in TYPES)
        self._files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
        self._packed = {name: gzip.compress(data, mtime=0) for name, data in self._files.items()}
        whole = hashlib.sha256()
        for name, data in self._files.items():
            whole.update(name.encode() + b"\0" + data)
        self._stamp = whole.hexdigest()[:12]
        self._home = self._made(folder.joinpath("index.html").read_text("utf-8"))

    def _made(self, page: str) -> str:
        """The page names the modules it begins with, so that the browser need not find them one after the other."""
        modules = [name for name in self._files if name.endswith(".js") and not name.startswith(LATER)]
        preloads = "\n".join(f'<link rel="modulepreload" href="/console/{{stamp}}/{name}">' for name in modules)
        return page.replace("{preloads}", preloads).replace("{stamp}", self._stamp)

    async def home(self, request: Request) -> Response:
        return HTMLResponse(self._home)

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
