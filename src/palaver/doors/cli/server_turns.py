"""Send watched turns to a server. How far each file was sent is kept in a file on this machine.

A request that may or may not have arrived is sent again. The server knows turns by their ids, so each is recorded
once. The mark of a file moves after the server has answered; a process that stops in between sends some turns again.

    watch/<server>/<hash of its path>.json    the mark of one session file, replaced as a whole
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from palaver.doors.cli.connection import ServerConnection
from palaver.errors import NotFoundMessage, PalaverError, Unavailable
from palaver.model.sessions import Mark
from palaver.operations.sessions.recording import MergedTurns, MergeTurns, merge_turns

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a request is sent again. The pause doubles each time."""


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
        self._is_waiting = False

    # Marks

    async def open(self, paths: list[str] | None) -> dict[str, Mark]:
        marks = await asyncio.to_thread(self._read_marks)
        if paths is None:
            return marks
        return {path: mark for path, mark in marks.items() if path in paths or path.partition("#")[0] in paths}

    async def keep_mark(self, mark: Mark, instead_of: str | None) -> None:
        await asyncio.to_thread(self._write_mark, mark, instead_of)

    def _read_marks(self) -> dict[str, Mark]:
        marks: dict[str, Mark] = {}
        for file in self._folder.glob("*.json"):
            with suppress(OSError, orjson.JSONDecodeError, TypeError):  # after a crash one may be incomplete
                mark = Mark(**orjson.loads(file.read_bytes()))
                marks[mark.path] = mark
        return marks

    def _write_mark(self, mark: Mark, instead_of: str | None) -> None:
        file = self._file_of(mark.path)
        draft = file.with_suffix(f".{os.getpid()}")  # several processes may send to one server
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft.write_bytes(orjson.dumps(asdict(mark)))
            os.replace(draft, file)
            if instead_of:
                self._file_of(instead_of).unlink(missing_ok=True)
        except OSError as problem:
            raise Unavailable(f"{self._folder} cannot be written: {problem.strerror}.") from problem

    def _file_of(self, path: str) -> Path:
        return self._folder / f"{hashlib.sha256(path.encode()).hexdigest()[:32]}.json"

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
