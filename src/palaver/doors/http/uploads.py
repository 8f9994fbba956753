"""Uploads for messages: images and other files. An image is detected from the content, not from the name.

Other files are only ever downloaded. A browser never shows them, so a file cannot run a script on this site.
"""

from __future__ import annotations

import asyncio
import mimetypes
import os
import re
from pathlib import Path
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from palaver.doors.authentication import Requester
from palaver.doors.http.bodies import files_in
from palaver.errors import NotFound, Refused, TooLarge
from palaver.settings import Settings
from palaver.synced_files import make_folder, sync_folder

TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}
_BEGINS = {
    ".png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    ".jpg": re.compile(rb"\xff\xd8\xff"),
    ".gif": re.compile(rb"GIF8[79]a"),
    ".webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}
FORM_BYTES = 64 * 1024
"""Maximum size of the multipart form around the file."""
FILE = ".bin"
"""The file extension of all files that are no images. The message has the real name."""
_NAME = re.compile(r"[0-9a-f]{32}\.(?:png|jpg|gif|webp|bin)")
_TYPE = re.compile(r"[\w.+-]{1,80}/[\w.+-]{1,80}")


def extension_of(data: bytes) -> str | None:
    """The file extension for this content."""
    return next((extension for extension, begins in _BEGINS.items() if begins.match(data)), None)


def folder(settings: Settings, workspace: str) -> Path:
    return settings.data / "uploads" / workspace


def _folder_of(request: Request) -> Path:
    requester: Requester = request.scope["palaver.requester"]
    return folder(requester.workspace.settings, requester.workspace.name)


async def upload_image(request: Request) -> Response:
    """Store an image and return its {url, name} for an attachment."""
    name, data = await _receive(request, "image")
    extension = extension_of(data)
    if extension is None:
        raise Refused("Only PNG, JPEG, GIF and WebP images can be attached.")
    return JSONResponse({"url": await _store(request, data, extension), "name": name})


async def upload_file(request: Request) -> Response:
    """Store a file of any type and return its {url, name, type, size} for an attachment."""
    name, data = await _receive(request, "file")
    if not data:
        raise Refused("This file is empty.")
    extension = extension_of(data) or FILE
    guessed = TYPES.get(extension) or mimetypes.guess_type(name)[0] or ""
    kind = guessed if _TYPE.fullmatch(guessed) else "application/octet-stream"
    url = await _store(request, data, extension)
    return JSONResponse({"url": url, "name": name, "type": kind, "size": len(data)})


async def _receive(request: Request, what: str) -> tuple[str, bytes]:
    """The name and content of the file in the form of a request, up to the maximum size."""
    requester: Requester = request.scope["palaver.requester"]
    limit = requester.workspace.settings.max_upload
    subject = "An image" if what == "image" else "A file"
    too_large = TooLarge(f"{subject} can have at most {limit:,} bytes (PALAVER_MAX_UPLOAD).")
    wrong_form = Refused(f"Send the {what} as multipart/form-data, in a part named 'file'.")
    async with files_in(request, 1, limit + FORM_BYTES, too_large, wrong_form) as (part, *_):
        data = await part.read(limit + 1)
        if len(data) > limit:
            raise too_large
        return (part.filename or what)[:200], data


async def _store(request: Request, data: bytes, extension: str) -> str:
    name = uuid4().hex + extension
    await asyncio.to_thread(_write, _folder_of(request), name, data)
    return f"/uploads/{name}"


def _write(where: Path, name: str, data: bytes) -> None:
    """Write a new file. When this returns, it is on disk."""
    make_folder(where)
    with os.fdopen(os.open(where / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(where)


async def show_image(request: Request) -> Response:
    name = request.path_params["name"]
    path = _folder_of(request) / name
    if not _NAME.fullmatch(name) or not await asyncio.to_thread(path.is_file):
        raise NotFound("image" if not name.endswith(FILE) else "file", name[:80])
    headers = {"cache-control": "private, max-age=31536000"}
    if path.suffix == FILE:  # the page names the download; the browser must not show it
        headers["content-disposition"] = "attachment"
        return FileResponse(path, media_type="application/octet-stream", headers=headers)
    return FileResponse(path, media_type=TYPES[path.suffix], headers=headers)
