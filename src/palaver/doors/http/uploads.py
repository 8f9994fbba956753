"""Image uploads for messages. The file type is detected from the content, not from the name."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.types import Message

from palaver.doors.authentication import Requester
from palaver.doors.http.rest import reports_errors
from palaver.errors import Forbidden, NotFound, PalaverError, Refused, TooLarge
from palaver.settings import Settings

TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp"}
FORM_BYTES = 64 * 1024
"""Maximum size of the multipart form around the image."""
_NAME = re.compile(r"[0-9a-f]{32}\.(?:png|jpg|gif|webp)")


def extension_of(data: bytes) -> str | None:
    """The file extension for this content."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return ".png"
    if data.startswith(b"\xff\xd8\xff"):
        return ".jpg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return ".gif"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return ".webp"
    return None


def folder(settings: Settings, workspace: str) -> Path:
    return settings.data / "uploads" / workspace


@reports_errors
async def upload_image(request: Request) -> Response:
    """Store an image and return its {url, name} for an attachment."""
    requester: Requester = request.scope["palaver.requester"]
    if "write" not in requester.caller.scopes:
        raise Forbidden("This token has no 'write' scope.")
    limit = requester.workspace.settings.max_upload
    too_large = TooLarge(f"An image can have at most {limit:,} bytes (PALAVER_MAX_UPLOAD).")
    received = 0

    async def receive() -> Message:
        """Receive the body, up to the maximum size of an image."""
        nonlocal received
        message = await request.receive()
        received += len(message.get("body", b""))
        if received > limit + FORM_BYTES:
            raise too_large
        return message

    try:
        form = await Request(request.scope, receive).form(max_files=1, max_fields=10)
    except PalaverError:
        raise
    except Exception:
        raise Refused("Send the image as multipart/form-data, in a part named 'file'.") from None
    try:
        part = form.get("file")
        if part is None or isinstance(part, str):
            raise Refused("Send the image as multipart/form-data, in a part named 'file'.")
        data = await part.read(limit + 1)
        if len(data) > limit:
            raise too_large
        extension = extension_of(data)
        if extension is None:
            raise Refused("Only PNG, JPEG, GIF and WebP images can be attached.")
        name = uuid4().hex + extension
        await asyncio.to_thread(_write, folder(requester.workspace.settings, requester.workspace.name), name, data)
        return JSONResponse({"url": f"/uploads/{name}", "name": (part.filename or name)[:200]})
    finally:
        await form.close()


def _write(where: Path, name: str, data: bytes) -> None:
    where.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(where / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@reports_errors
async def show_image(request: Request) -> Response:
    requester: Requester = request.scope["palaver.requester"]
    name = request.path_params["name"]
    path = folder(requester.workspace.settings, requester.workspace.name) / name
    if not _NAME.fullmatch(name) or not await asyncio.to_thread(path.is_file):
        raise NotFound("image", name[:80])
    return FileResponse(path, media_type=TYPES[path.suffix], headers={"cache-control": "private, max-age=31536000"})
