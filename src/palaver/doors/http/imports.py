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
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message

from palaver.doors.authentication import Requester
from palaver.doors.http.rest import json_response, reports_errors
from palaver.errors import Forbidden, NotFound, PalaverError, Refused, TooLarge
from palaver.model.events import encode
from palaver.model.ids import new_id
from palaver.operations.archive import import_jobs
from palaver.operations.archive.import_files import Summary, import_paths
from palaver.synced_files import make_folder

log = logging.getLogger("palaver")

CHUNK = 1024 * 1024
STORE_SECONDS = 2.0
"""How often the state of a running job is stored, for other servers."""
LOOK_SECONDS = 1.0
"""How often a client that follows the job of another server gets its state."""
MAX_FILES = 1_000
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff/\\:]+")
MAX_NAME_BYTES = 200
ABANDONED_SECONDS = 24 * 3600
"""No import takes so long. Older uploads are left over from a server that was killed."""


@dataclass
class Job:
    """The import of one upload."""

    id: str
    workspace: str
    folder: str = ""
    status: Literal["running", "done", "failed"] = "running"
    summary: Summary = field(default_factory=Summary)
    message: str | None = None
    changes: int = 0
    """How often the job has changed, for clients that wait for the next change."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def changed(self) -> None:
        """Wake all clients that follow this job."""
        self.changes += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, seen: int, timeout: float) -> None:
        """Wait until the job has changed more than `seen` times."""
        if self.changes == seen:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._changed.wait()

    def as_json(self) -> dict[str, Any]:
        summary = self.summary
        folder = rf"^{re.escape(self.folder)}/\d+/"  # names are shown as uploaded
        return {
            "id": self.id,
            "status": self.status,
            "message": self.message,
            "new": summary.new,
            "changed": summary.changed,
            "unchanged": summary.unchanged,
            "messages": summary.messages,
            "bytes_read": summary.bytes_read,
            "bytes_total": summary.bytes_total,
            "formats": summary.formats,
            "kinds": summary.kinds,
            "items": summary.items,
            "skipped": [{"name": re.sub(folder, "", one.name), "why": one.why} for one in summary.skipped],
            "skipped_count": summary.skipped_count,
        }


class Imports:
    """The import jobs of this server, while they run. The database has all of them."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @reports_errors
    async def begin(self, request: Request) -> Response:
        requester: Requester = request.scope["palaver.requester"]
        if "write" not in requester.caller.scopes:
            raise Forbidden("This token has no 'write' scope.")
        uploads = requester.workspace.settings.data / "uploads" / "incoming"
        make_folder(uploads)
        await asyncio.to_thread(_remove_abandoned, uploads)
        folder = Path(tempfile.mkdtemp(dir=uploads))
        try:
            await _receive(request, folder, requester.workspace.settings.max_import)
        except BaseException:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            raise
        job = Job(new_id(), requester.workspace.name, str(folder))
        await import_jobs.store_state(requester.workspace, job.as_json())
        self._jobs[job.id] = job
        task = asyncio.create_task(self._run(job, requester, folder))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return json_response(job.as_json(), 202)

    async def _run(self, job: Job, requester: Requester, folder: Path) -> None:
        storing = asyncio.create_task(_keep_storing(requester, job))
        try:
            await _import(job, requester, folder)
            storing.cancel()
            await import_jobs.store_state(requester.workspace, job.as_json())
        except PalaverError as problem:
            log.warning("the result of an import could not be stored: %s", problem.message)
        finally:
            storing.cancel()
            del self._jobs[job.id]

    async def close(self) -> None:
        """Stop running imports between two batches. Uploading the same files again continues them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @reports_errors
    async def show(self, request: Request) -> Response:
        return json_response(await self._state(request))

    @reports_errors
    async def follow(self, request: Request) -> Response:
        await self._state(request)
        return StreamingResponse(self._frames(request), media_type="text/event-stream")

    async def _state(self, request: Request) -> dict[str, Any]:
        requester: Requester = request.scope["palaver.requester"]
        id = request.path_params["id"]
        if job := self._own(request):
            return job.as_json()
        state = await import_jobs.state_of(requester.workspace, id)
        if state is None:
            raise NotFound("import", id[:80])
        return state

    def _own(self, request: Request) -> Job | None:
        """The job, if it runs on this server."""
        requester: Requester = request.scope["palaver.requester"]
        job = self._jobs.get(request.path_params["id"])
        return job if job and job.workspace == requester.workspace.name else None

    async def _frames(self, request: Request) -> AsyncIterator[bytes]:
        """The state whenever it changes, at last how the job ended."""
        while True:
            job = self._own(request)
            seen = job.changes if job else 0
            state = await self._state(request)
            yield _frame(state)
            if state["status"] != "running":
                return
            if job:
                await job.wait(seen, timeout=10)
            else:
                await asyncio.sleep(LOOK_SECONDS)


def _frame(state: dict[str, Any]) -> bytes:
    name = "progress" if state["status"] == "running" else state["status"]
    return b"event: import.%b\ndata: %b\n\n" % (name.encode(), encode(state))


async def _keep_storing(requester: Requester, job: Job) -> None:
    while True:
        await asyncio.sleep(STORE_SECONDS)
        with suppress(PalaverError):  # a busy database: the next time is soon
            await import_jobs.store_state(requester.workspace, job.as_json())


def _remove_abandoned(uploads: Path) -> None:
    """Delete uploads of imports that never ended, because their server was killed."""
    for folder in uploads.iterdir():
        with suppress(OSError):
            if folder.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                shutil.rmtree(folder)


async def _receive(request: Request, folder: Path, most: int) -> None:
    """Store the uploaded files under safe names. Refuse them if they are too large together."""
    received = 0

    async def receive() -> Message:
        nonlocal received
        message = await request.receive()
        received += len(message.get("body", b""))
        if received > most:
            raise TooLarge(f"An upload can have at most {most:,} bytes (PALAVER_MAX_IMPORT).")
        return message

    try:
        form = await Request(request.scope, receive).form(max_files=MAX_FILES, max_fields=10)
    except PalaverError:
        raise
    except Exception:
        raise Refused("Send the files as multipart/form-data, in parts named 'file'.") from None
    try:
        files = [part for part in form.getlist("file") if isinstance(part, UploadFile)]
        if not files:
            raise Refused("Send the files as multipart/form-data, in parts named 'file'.")
        for number, part in enumerate(files):
            name = safe_name(part.filename or "")
            place = folder / str(number)
            await asyncio.to_thread(place.mkdir)
            with os.fdopen(os.open(place / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                while chunk := await part.read(CHUNK):
                    await asyncio.to_thread(file.write, chunk)
    finally:
        await form.close()


def safe_name(name: str) -> str:
    """The file name without any path. It becomes the title of items that have none."""
    last = _UNSAFE.sub("_", re.split(r"[/\\]", name)[-1])
    return last.encode()[-MAX_NAME_BYTES:].decode(errors="ignore").lstrip(". ") or "upload"


async def _import(job: Job, requester: Requester, folder: Path) -> None:
    def progress(summary: Summary) -> None:
        job.summary = summary
        job.changed()

    failure = None
    try:
        paths = sorted(path for place in folder.iterdir() for path in place.iterdir())
        job.summary = await import_paths(requester.workspace, paths, are_uploads=True, progress=progress)
    except PalaverError as problem:
        failure = problem.message
    except Exception:
        log.exception("an import failed")
        failure = "The server failed. Its log says why."
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    job.status, job.message = "failed" if failure else "done", failure
    job.changed()
