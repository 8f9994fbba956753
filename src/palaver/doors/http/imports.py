"""Bringing history in over HTTP: upload files, then watch the import as it goes.

POST /api/import                multipart, one or more parts named 'file'  ->  202 {"id", "status", …}
GET  /api/import/{id}           how far it is
GET  /api/import/{id}/events    the same as server-sent events, until it is done
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message

from palaver.doors.http.rest import error
from palaver.doors.visit import Visit
from palaver.errors import Forbidden, NotFound, PalaverError, Refused, TooLarge
from palaver.model.events import encode
from palaver.model.ids import new_id
from palaver.operations.archive.import_files import Summary, import_paths

log = logging.getLogger("palaver")

PIECE = 1024 * 1024
KEPT = 100
FILES_AT_MOST = 1_000
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff/\\:]+")
LONGEST_NAME = 200  # bytes


@dataclass
class Job:
    """One upload on its way into the archive."""

    id: str
    workspace: str
    folder: str = ""
    status: Literal["running", "done", "failed"] = "running"
    summary: Summary = field(default_factory=Summary)
    message: str | None = None
    moves: int = 0
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    def _own_name(self, name: str) -> str:
        """As the uploader knows it: where we keep it meanwhile is nobody's business."""
        return re.sub(rf"^{re.escape(self.folder)}/\d+/", "", name) if self.folder else name

    def moved(self) -> None:
        """Wakes everybody who follows it; the next move has an event of its own."""
        self.moves += 1
        self._moved.set()
        self._moved = asyncio.Event()

    async def wait(self, seen: int, timeout: float) -> None:
        """Until it has moved more often than that."""
        if self.moves == seen:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._moved.wait()

    def shown(self) -> dict[str, Any]:
        summary = self.summary
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
            "skipped": [{"name": self._own_name(one.name), "why": one.why} for one in summary.skipped],
            "skipped_count": summary.skipped_count,
        }


class Imports:
    """The uploads this server has taken, the latest few."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, request: Request) -> Response:
        visit: Visit = request.scope["palaver.visit"]
        try:
            if "write" not in visit.caller.scopes:
                raise Forbidden("This token has no 'write' scope.")
            folder = await asyncio.to_thread(_folder, visit.here.settings.data)
            try:
                await _receive(request, folder, visit.here.settings.max_import)
            except BaseException:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                raise
        except PalaverError as problem:
            return error(problem)
        job = Job(new_id(), visit.here.name, str(folder))
        self._jobs[job.id] = job
        for old in list(self._jobs)[:-KEPT]:
            del self._jobs[old]
        task = asyncio.create_task(_run(job, visit, folder))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return _json(job, 202)

    async def close(self) -> None:
        """What is being imported is given up between two portions; sent again, it goes on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def show(self, request: Request) -> Response:
        try:
            return _json(self._job(request))
        except PalaverError as problem:
            return error(problem)

    async def follow(self, request: Request) -> Response:
        try:
            job = self._job(request)
        except PalaverError as problem:
            return error(problem)
        return StreamingResponse(_frames(job), media_type="text/event-stream")

    def _job(self, request: Request) -> Job:
        visit: Visit = request.scope["palaver.visit"]
        id = request.path_params["id"]
        job = self._jobs.get(id)
        if job is None or job.workspace != visit.here.name:
            raise NotFound("import", id[:80])
        return job


def _json(job: Job, status: int = 200) -> Response:
    return Response(encode(job.shown()), status, media_type="application/json")


async def _frames(job: Job) -> AsyncIterator[bytes]:
    while True:
        status, seen = job.status, job.moves
        yield b"event: import.%b\ndata: %b\n\n" % (
            b"progress" if status == "running" else status.encode(),
            encode(job.shown()),
        )
        if status != "running":
            return
        await job.wait(seen, timeout=10)


def _folder(data: Path) -> Path:
    place = data / "uploads" / "incoming"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    return Path(tempfile.mkdtemp(dir=place))


async def _receive(request: Request, folder: Path, most: int) -> None:
    """Keep the uploaded files, under harmless names, as long as they are not too large together."""
    taken = 0

    async def receive() -> Message:
        nonlocal taken
        message = await request.receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise TooLarge(f"At most {most:,} bytes can be uploaded at once (PALAVER_MAX_IMPORT).")
        return message

    try:
        form = await Request(request.scope, receive).form(max_files=FILES_AT_MOST, max_fields=10)
    except PalaverError:
        raise
    except Exception:
        raise Refused("Send the files as multipart/form-data, in parts named 'file'.") from None
    try:
        files = [part for part in form.getlist("file") if isinstance(part, UploadFile)]
        if not files:
            raise Refused("Send the files as multipart/form-data, in parts named 'file'.")
        for number, part in enumerate(files):
            name = _harmless(part.filename or "")
            place = folder / str(number)
            await asyncio.to_thread(place.mkdir)
            with os.fdopen(os.open(place / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                while piece := await part.read(PIECE):
                    await asyncio.to_thread(file.write, piece)
    finally:
        await form.close()


def _harmless(name: str) -> str:
    """The last part of the name a file came with, which becomes its title where it has none: as it is, but no path."""
    last = _UNSAFE.sub("_", re.split(r"[/\\]", name)[-1])
    return last.encode()[-LONGEST_NAME:].decode(errors="ignore").lstrip(". ") or "upload"


async def _run(job: Job, visit: Visit, folder: Path) -> None:
    def progress(summary: Summary) -> None:
        job.summary = summary
        job.moved()

    complaint = None
    try:
        paths = sorted(path for place in folder.iterdir() for path in place.iterdir())
        job.summary = await import_paths(visit.here, paths, are_uploads=True, progress=progress)
    except PalaverError as problem:
        complaint = problem.message
    except Exception:
        log.exception("an import failed")
        complaint = "Something went wrong on the server's side. It has been written to its log."
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    job.status, job.message = "failed" if complaint else "done", complaint
    job.moved()
