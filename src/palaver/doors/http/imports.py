"""Import over HTTP: upload files, then follow the import job.

POST /api/import                multipart, one or more parts named 'file'  ->  202 {"id", "status", …}
GET  /api/import/{id}           progress of the job
GET  /api/import/{id}/events    progress as server-sent events, until the job ends
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from palaver.doors.authentication import Requester
from palaver.doors.http.bodies import files_in
from palaver.doors.http.rest import json_response
from palaver.doors.http.sse import EventStream
from palaver.errors import NotFound, PalaverError, Refused, TooLarge, Unavailable
from palaver.model.events import encode
from palaver.model.ids import new_id
from palaver.operations.archive import import_files
from palaver.operations.archive.import_files import Summary, import_paths
from palaver.synced_files import make_folder

log = logging.getLogger("palaver")

CHUNK = 1024 * 1024
STORE_SECONDS = 1.0
"""How often the state of a running import is stored."""
LOOK_SECONDS = 0.25
"""How often the state is read for a client that follows an import."""
MAX_FILES = 1_000
COUNTS = ("new", "changed", "unchanged", "messages", "bytes_read", "bytes_total", "formats", "kinds", "items")
"""The fields of a summary that are shown as they are."""
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff/\\:]+")
MAX_NAME_BYTES = 200
ABANDONED_SECONDS = 24 * 3600
"""No import takes so long. Older uploads are left over from a server that was killed."""


class Imports:
    """The imports that this server runs. Their states are in the database, so that every server can show them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, request: Request) -> Response:
        requester: Requester = request.scope["palaver.requester"]
        settings, id = requester.workspace.settings, new_id()
        too_large = TooLarge(f"An upload can have at most {settings.max_import:,} bytes (PALAVER_MAX_IMPORT).")
        wrong_form = Refused("Send the files as multipart/form-data, in parts named 'file'.")
        async with files_in(request, MAX_FILES, settings.max_import, too_large, wrong_form) as parts:
            uploads = settings.data / "uploads" / "incoming"
            make_folder(uploads)
            await asyncio.to_thread(_remove_abandoned, uploads)
            folder = Path(tempfile.mkdtemp(dir=uploads))
            try:
                for number, part in enumerate(parts):
                    await _store(part, folder / str(number))
            except BaseException:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                raise
        state = _state(id, "running", Summary(), folder)
        await import_files.store_state(requester.workspace, state)
        task = asyncio.create_task(_run(requester, id, folder))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return json_response(state, 202)

    async def close(self) -> None:
        """Stop running imports between two batches. Uploading the same files again continues them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def show(request: Request) -> Response:
    return json_response(await _state_of(request))


async def follow(request: Request) -> Response:
    return EventStream(_frames(request, await _state_of(request)))


async def _state_of(request: Request) -> dict[str, Any]:
    requester: Requester = request.scope["palaver.requester"]
    id = request.path_params["id"]
    state = await import_files.state_of(requester.workspace, id)
    if state is None:
        raise NotFound("import", id[:80])
    return state


async def _frames(request: Request, state: dict[str, Any]) -> AsyncGenerator[bytes]:
    """The state whenever it changes, at last how the import ended."""
    sent = b""
    while True:
        name = "progress" if state["status"] == "running" else state["status"]
        frame = b"event: import.%b\ndata: %b\n\n" % (name.encode(), encode(state))
        if frame != sent:
            yield frame
        if name != "progress":
            return
        sent = frame
        await asyncio.sleep(LOOK_SECONDS)
        with suppress(Unavailable):  # a busy database: the next time is soon
            state = await _state_of(request)


async def _store(part: UploadFile, place: Path) -> None:
    """Store an uploaded file under a safe name."""
    await asyncio.to_thread(place.mkdir)
    path = place / safe_name(part.filename or "")
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        while chunk := await part.read(CHUNK):
            await asyncio.to_thread(file.write, chunk)


async def _run(requester: Requester, id: str, folder: Path) -> None:
    """Import the files in a folder, and delete it. The state is stored now and then, and at the end."""
    here, summary, failure = requester.workspace, Summary(), None

    def progress(so_far: Summary) -> None:
        nonlocal summary
        summary = so_far

    paths = sorted(folder.glob("*/*"))
    importing = asyncio.create_task(import_paths(here, paths, are_uploads=True, progress=progress))
    try:
        while not (await asyncio.wait((importing,), timeout=STORE_SECONDS))[0]:
            with suppress(PalaverError):  # a busy database: the next time is soon
                await import_files.store_state(here, _state(id, "running", summary, folder))
        summary = importing.result()
    except PalaverError as problem:
        failure = problem.message
    except Exception:
        log.exception("an import failed")
        failure = "The server failed. Its log says why."
    finally:
        importing.cancel()
        await asyncio.gather(importing, return_exceptions=True)
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    try:
        await import_files.store_state(here, _state(id, "failed" if failure else "done", summary, folder, failure))
    except PalaverError as problem:
        log.warning("the result of an import could not be stored: %s", problem.message)


def _state(
    id: str, status: Literal["running", "done", "failed"], summary: Summary, folder: Path, message: str | None = None
) -> dict[str, Any]:
    as_uploaded = rf"^{re.escape(str(folder))}/\d+/"  # names are shown as uploaded
    return {
        "id": id,
        "status": status,
        "message": message,
        **{name: getattr(summary, name) for name in COUNTS},
        "skipped": [{"name": re.sub(as_uploaded, "", one.name), "why": one.why} for one in summary.skipped],
        "skipped_count": summary.skipped_count,
    }


def _remove_abandoned(uploads: Path) -> None:
    """Delete uploads of imports that never ended, because their server was killed."""
    for folder in uploads.iterdir():
        with suppress(OSError):
            if folder.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                shutil.rmtree(folder)


def safe_name(name: str) -> str:
    """The file name without any path. It becomes the title of items that have none."""
    last = _UNSAFE.sub("_", re.split(r"[/\\]", name)[-1])
    return last.encode()[-MAX_NAME_BYTES:].decode(errors="ignore").lstrip(". ") or "upload"
