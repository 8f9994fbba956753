"""Send watched turns to a server. How far each file was sent is kept in a file on this machine.

A request that may or may not have arrived is sent again. The server knows turns by their ids, so each is recorded
once. The mark of a file moves after the server has answered; a process that stops in between sends some turns again.

    watch/<server>/marks.jsonl    one mark a line, the last one of a file counts. It is locked while marks are written:
                                  several processes may send to one server
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from palaver.doors.cli.connection import ServerConnection
from palaver.errors import NotFoundMessage, PalaverError, Unavailable
from palaver.model.sessions import Mark
from palaver.operations.sessions.recording import MergedTurns, MergeTurns, merge_turns
from palaver.synced_files import append_whole, locked

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a request is sent again. The pause doubles each time."""
REWRITE_BYTES = 8 * 1024 * 1024
"""The file of marks is rewritten without outdated lines when it has grown by this much."""


class ServerTurns:
    """A `TurnStore` of a server."""

    def __init__(
        self,
        connection: ServerConnection,
        home: Path,
        url: str,
        token: str | None,
        say: Callable[[str], None],
        *,
        is_patient: bool,
    ) -> None:
        self._connection, self._say, self._is_patient = connection, say, is_patient
        name = hashlib.sha256(f"{url.rstrip('/')}\0{token or ''}".encode()).hexdigest()[:16]
        self._folder = home / "watch" / name
        self._marks = self._folder / "marks.jsonl"
        self._size_after_rewrite = 0
        self._is_waiting = False

    # Marks

    async def open(self, paths: list[str] | None) -> dict[str, Mark]:
        marks = await asyncio.to_thread(self._rewrite)
        if paths is None:
            return marks
        return {path: mark for path, mark in marks.items() if path in paths or path.partition("#")[0] in paths}

    async def keep_mark(self, mark: Mark, instead_of: str | None) -> None:
        lines = [{"path": instead_of, "is_gone": True}] if instead_of else []
        await asyncio.to_thread(self._append, [*lines, asdict(mark)])

    def _append(self, lines: list[dict[str, Any]]) -> None:
        with self._locked() as file:
            append_whole(file, b"".join(orjson.dumps(line) + b"\n" for line in lines), is_synced=False)
            size = os.fstat(file).st_size
        if size > self._size_after_rewrite + REWRITE_BYTES:
            self._rewrite()

    def _rewrite(self) -> dict[str, Mark]:
        """Read all marks, and leave out outdated lines in the file."""
        with self._locked():
            marks: dict[str, Mark] = {}
            raw = self._marks.read_bytes()
            for line in raw.splitlines():
                try:
                    found = orjson.loads(line)
                    marks.pop(found["path"], None)
                    if not found.get("is_gone"):
                        marks[found["path"]] = Mark(**found)
                except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
                    continue  # the last line may be incomplete after a crash
            kept = b"".join(orjson.dumps(asdict(mark)) + b"\n" for mark in marks.values())
            if kept != raw:
                draft = self._marks.with_suffix(".draft")
                draft.write_bytes(kept)
                os.replace(draft, self._marks)
            self._size_after_rewrite = len(kept)
        return marks

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The file of marks, locked."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with locked(self._marks) as file:
                yield file
        except OSError as problem:
            raise Unavailable(f"{self._folder} cannot be written: {problem.strerror}.") from problem

    # Turns

    async def merge(self, request: MergeTurns) -> MergedTurns:
        answer = await self._send(request.model_dump(exclude_none=True))
        return MergedTurns(answer["added"], answer["changed"], answer["removed"])

    async def _send(self, given: dict[str, Any]) -> Any:
        """Send a request until the server answers."""
        pause = FIRST_PAUSE
        while True:
            try:
                answer = await self._connection.call(merge_turns, given)
            except Unavailable as problem:
                if not self._is_patient:
                    raise
                if not self._is_waiting:
                    self._is_waiting = True
                    self._say(f"{problem.message} Waiting for the server; nothing is lost.")
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            except NotFoundMessage as problem:
                raise PalaverError(f"The server cannot take turns: {problem.message} Is it older than 0.2?") from None
            else:
                if self._is_waiting:
                    self._is_waiting = False
                    self._say("The server answers again.")
                return answer
