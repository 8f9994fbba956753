"""Transcripts: the durable record of agents' sessions, one JSON line a turn. The index is made from them, never the
other way round.

    sessions/<workspace>/<agent's slug>/agent.json         who it is
                                        <session>.jsonl    its turns
                                        deleted.jsonl      a tombstone for each session that was deleted

A line counts once it is written and synced, under a lock that holds across processes. A torn last line (the power went
down in the middle of it) is closed by the next append, so that nothing is glued to it; reading passes over it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import orjson

from palaver.model.sessions import Owner, Turn
from palaver.model.times import parse

LONGEST_LINE = 32 * 1024 * 1024
_LONGEST_NAME = 180
_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a transcript: a turn, or what is wrong with it. `end` is where the next one begins."""

    end: int
    turn: Turn | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """One session's file."""

    owner: Owner
    path: Path

    @property
    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0


class Transcripts:
    """One workspace's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # Writing

    def append(self, owner: Owner, session_id: str, turns: list[Turn]) -> None:
        """When this returns the turns are on disk, whole, after everything that was there before."""
        self.introduce(owner)
        lines = b"".join(_line(turn) for turn in turns)
        with _locked(self.path(owner, session_id)) as file:
            _close_torn_line(file)
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())

    def introduce(self, owner: Owner) -> None:
        """Write down who the agent is, so that the files alone tell."""
        folder = self._folder(owner)
        card = folder / "agent.json"
        if card.exists():
            return
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        data = orjson.dumps({"id": owner.id, "slug": owner.slug, "name": owner.name})
        draft = folder / f".agent.{os.getpid()}"
        _write_synced(draft, data)
        os.replace(draft, card)
        _sync_folder(folder)
        _sync_folder(folder.parent)

    def delete(self, owner: Owner, session_id: str, at: datetime) -> None:
        """The tombstone first: whatever happens after it, the session does not come back."""
        folder = self._folder(owner)
        stone = orjson.dumps({"session_id": session_id, "deleted_at": at}, option=_OPTIONS)
        with _locked(folder / "deleted.jsonl") as file:
            _close_torn_line(file)
            file.write(stone)
            file.flush()
            os.fsync(file.fileno())
        self.path(owner, session_id).unlink(missing_ok=True)
        _sync_folder(folder)

    # Reading

    def owners(self) -> Iterator[Owner]:
        for card in sorted(self.folder.glob("*/agent.json")):
            try:
                data = orjson.loads(card.read_bytes())
                yield Owner(str(data["id"]), str(data["slug"]), str(data["name"]))
            except (orjson.JSONDecodeError, KeyError, TypeError):
                # Lines name their agent too; the folder's name is its slug.
                yield Owner(card.parent.name, card.parent.name, card.parent.name)

    def all(self) -> Iterator[Transcript]:
        for owner in self.owners():
            for path in sorted(self._folder(owner).glob("*.jsonl")):
                if path.name != "deleted.jsonl":
                    yield Transcript(owner, path)

    def of(self, owner: Owner, session_id: str) -> Transcript:
        return Transcript(owner, self.path(owner, session_id))

    def lines(self, transcript: Transcript, after: int = 0) -> Iterator[Line]:
        """The lines from a place on. The last one is left out while it has no end: it may still be being written."""
        stones = self.tombstones(transcript.owner)
        try:
            file = transcript.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            file.seek(after)
            while raw := file.readline(LONGEST_LINE):
                if not raw.endswith(b"\n"):
                    if len(raw) < LONGEST_LINE:
                        return
                    while raw and not raw.endswith(b"\n"):
                        raw = file.readline(LONGEST_LINE)
                    yield Line(file.tell(), None, f"a line of more than {LONGEST_LINE:,} bytes")
                elif raw.strip():
                    yield _read(raw, file.tell(), transcript.owner, stones)

    def tombstones(self, owner: Owner) -> dict[str, datetime]:
        """When each deleted session was deleted. What was recorded after that is a new session of the same name."""
        try:
            raw = (self._folder(owner) / "deleted.jsonl").read_bytes()
        except FileNotFoundError:
            return {}
        stones: dict[str, datetime] = {}
        for line in raw.splitlines():
            try:
                data = orjson.loads(line)
                stones[data["session_id"]] = parse(data["deleted_at"])
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
                continue
        return stones

    # Places

    def path(self, owner: Owner, session_id: str) -> Path:
        return self._folder(owner) / f"{_file_name(session_id)}.jsonl"

    def _folder(self, owner: Owner) -> Path:
        return self.folder / _file_name(owner.slug)


def _file_name(name: str) -> str:
    """Any name as a file's name: what is unusual is quoted, what is too long is known by its hash."""
    quoted = quote(name, safe=" -_.~")
    if quoted.startswith(".") or quoted == "deleted":
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    if len(quoted) > _LONGEST_NAME:
        return f"{quoted[:80]}~{hashlib.sha256(name.encode()).hexdigest()[:40]}"
    return quoted


def _line(turn: Turn) -> bytes:
    return orjson.dumps(
        {
            "id": turn.id,
            "session_id": turn.session_id,
            "agent_id": turn.agent_id,
            "role": turn.role,
            "content": turn.content,
            "ts": turn.ts,
            "recorded_at": turn.recorded_at,
        },
        option=_OPTIONS,
    )


def _read(raw: bytes, end: int, owner: Owner, stones: dict[str, datetime]) -> Line:
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return Line(end, None, "a line that is not whole, or not JSON")
    try:
        ts = parse(data["ts"])
        turn = Turn(
            id=str(data["id"]),
            session_id=str(data["session_id"]),
            agent_id=owner.id,
            role=str(data["role"]),
            content=str(data["content"]),
            ts=ts,
            recorded_at=parse(data.get("recorded_at") or data["ts"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return Line(end, None, "a line that is not a turn")
    deleted_at = stones.get(turn.session_id)
    if deleted_at is not None and turn.recorded_at <= deleted_at:
        return Line(end, None)
    return Line(end, turn)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    """The file, open at its end, while nobody else writes to it. It may have been deleted while we waited."""
    while True:
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                is_same = os.path.samestat(os.fstat(descriptor), path.stat())
            except FileNotFoundError:
                is_same = False
            if not is_same:
                continue
            if is_new:
                _sync_folder(path.parent)
            file.seek(0, os.SEEK_END)
            yield file
            return


def _close_torn_line(file: BinaryIO) -> None:
    if file.tell() == 0:
        return
    file.seek(-1, os.SEEK_END)
    if file.read(1) != b"\n":
        file.seek(0, os.SEEK_END)
        file.write(b"\n")


def _write_synced(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """A new name is only safe once its folder is synced."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
