"""Transcripts: the durable record of agents' sessions, one JSON line for each turn. The index is built from them.

    sessions/<workspace>/<agent's slug>/agent.json         id, slug and name
                                        <session>.jsonl    its turns
                                        deleted.jsonl      tombstones of deleted sessions and of turns that
                                                           were taken back
                         forgotten.jsonl                   tombstones of forgotten turns (`forgotten.py`)

A line is written and synced under a lock that holds across processes. After a crash, the last line may be incomplete.
The next append ends that line first, and readers skip it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from itertools import groupby, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

import orjson

from palaver.model.library import Branch, Said, tool_facts
from palaver.model.sessions import Owner, Turn
from palaver.model.times import EPOCH, MICROSECOND, now, parse
from palaver.synced_files import append_lines, append_whole, locked, make_folder, sync_folder

LONGEST_LINE = 32 * 1024 * 1024
"""Longer lines are skipped and reported."""
_LONGEST_NAME = 180
_OPTIONS = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a transcript: a turn or a problem. `end` is the offset of the next line."""

    end: int
    turn: Turn | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """The transcript file of one session."""

    owner: Owner
    path: Path

    @property
    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0


class Transcripts:
    """The folder with the transcripts of one workspace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[Path, tuple[int, Tombstones]] = {}
        self._renamed: dict[str, Path] = {}
        """The folders of agents that were renamed, by id. A folder keeps its first name."""

    # Writing

    def append(self, owner: Owner, session_id: str, turns: list[Turn], after: int | None = None) -> list[Turn]:
        """Append turns to a session's file. When this returns, they are on disk. Returns the turns that were written.

        The lines after the offset `after` are read under the lock, and turns whose ids are there are not written again.
        """
        self.write_owner(owner)
        with locked(self.path(owner, session_id)) as file:
            if after is not None:
                written = self.lines(self.of(owner, session_id), min(after, os.fstat(file).st_size))
                known = {line.turn.id for line in written if line.turn}
                turns = [turn for turn in turns if turn.id not in known]
                if not turns:
                    return []
            at = now()  # under the lock, so that turns and deletions have one order
            tombstones = self.tombstones(owner)
            for deleted_at in (
                tombstones.sessions.get(session_id),
                *(tombstones.turns.get((session_id, t.id)) for t in turns),
            ):
                at = max(at, deleted_at + MICROSECOND) if deleted_at else at  # even if the clock was set back
            append_whole(file, b"".join(_line(turn, at) for turn in turns))
        return turns

    def write_owner(self, owner: Owner) -> None:
        """Write agent.json, so that the files alone tell whose they are."""
        folder = self._folder(owner)
        card = folder / "agent.json"
        if card.exists():
            return
        make_folder(folder)
        known = {name: value for name, value in asdict(owner).items() if value}
        data = orjson.dumps({"id": owner.id, "slug": owner.slug, "name": owner.name} | known)
        draft = folder / f".agent.{uuid4().hex}"  # other processes may write it at the same time
        _write_synced(draft, data, os.O_TRUNC)
        os.replace(draft, card)
        sync_folder(folder)

    def forget_owner(self, owner: Owner) -> None:
        """Remove agent.json, so that the files do not restore the agent. Its tombstones stay."""
        folder = self._folder(owner)
        if folder.is_dir():
            (folder / "agent.json").unlink(missing_ok=True)
            sync_folder(folder)

    def delete(self, owner: Owner, session_id: str) -> None:
        """Delete a session. The tombstone is written first, so that the session never comes back."""
        path = self.path(owner, session_id)
        with locked(path), locked(path.parent / "deleted.jsonl") as file:
            recorded = (line.turn.recorded_at for line in self.lines(Transcript(owner, path)) if line.turn)
            at = max(now(), *recorded, EPOCH)  # later than all of its turns, even if the clock is wrong
            append_whole(file, orjson.dumps({"session_id": session_id, "deleted_at": at}, option=_OPTIONS))
            path.unlink(missing_ok=True)
            _aside(path).unlink(missing_ok=True)
        sync_folder(path.parent)

    def move(self, owner: Owner, target: Owner, session_id: str, project: str) -> int:
        """Give a session to another agent, or the same one, and set its project. Returns the size of the new file.

        The new file is on disk before the old one is deleted. After a crash in between, both have the turns.
        """
        old, new = self.path(owner, session_id), self.path(target, session_id)
        self.write_owner(target)
        with locked(old):
            turns = [line.turn for line in self.lines(Transcript(owner, old)) if line.turn]
            known = set() if old == new else self.turn_ids(Transcript(target, new))
            lines = [
                _line(replace(turn, agent_id=target.id, project=project if turn.project else None), turn.recorded_at)
                for turn in turns
                if turn.id not in known
            ]
            if old == new:
                draft = old.with_suffix(".draft")
                _write_synced(draft, b"".join(lines), os.O_TRUNC)
                os.replace(draft, old)
            else:
                with locked(new) as file:
                    append_whole(file, b"".join(lines))
                old.unlink(missing_ok=True)
                sync_folder(new.parent)
            sync_folder(old.parent)
        return new.stat().st_size

    def take_back(self, owner: Owner, session_id: str, turn_ids: set[str]) -> None:
        """Invalidate these turns as recorded so far. They can be recorded again."""
        path = self.path(owner, session_id)
        with locked(path), locked(path.parent / "deleted.jsonl") as file:
            turns = (line.turn for line in self.lines(Transcript(owner, path)) if line.turn)
            at = max(now(), *(turn.recorded_at for turn in turns if turn.id in turn_ids), EPOCH)
            tombstone = {"session_id": session_id, "turn_ids": sorted(turn_ids), "deleted_at": at}
            append_whole(file, orjson.dumps(tombstone, option=_OPTIONS))

    def close_torn_line(self, transcript: Transcript) -> None:
        """End an incomplete last line. Under the lock no process is writing it."""
        if _is_torn(transcript.path):
            append_lines(transcript.path, b"")

    # Checking and repairing

    def files(self) -> list[Path]:
        """All transcripts and tombstone files."""
        return sorted(self.folder.glob("*/*.jsonl"))

    def damaged(self, path: Path) -> int:
        """The number of lines of a file that cannot be read."""
        try:
            with path.open("rb") as file:
                count = sum(not _is_sound(raw, path) for raw in file if raw.endswith(b"\n"))
        except OSError:
            return 1
        if _is_torn(path):
            with locked(path):  # it may be being written right now
                count += _is_torn(path)
        return count

    def set_aside(self, path: Path) -> int:
        """Move lines that cannot be read into a `.damaged` file. Returns their number."""

        def move(raw: bytes) -> bool:
            if _is_sound(raw, path):
                return False
            _write_synced(_aside(path), raw.rstrip(b"\n") + b"\n", os.O_APPEND)
            return True

        return self.erase(path, move)

    def erase(self, path: Path, is_gone: Callable[[bytes], bool]) -> int:
        """Replace lines by blanks, so that the offsets of other lines stay the same. Returns their number."""
        with locked(path), path.open("rb") as reading, path.open("rb+", buffering=0) as writing:
            place, erased = 0, 0
            for raw in reading:
                if raw.strip() and is_gone(raw):
                    os.pwrite(writing.fileno(), b" " * (len(raw) - 1) + b"\n", place)
                    erased += 1
                place += len(raw)
            os.fsync(writing.fileno())
            return erased

    def everything_in(self, transcript: Transcript) -> Iterator[Turn]:
        """All turns of a file, also those that were taken back."""
        with suppress(FileNotFoundError), transcript.path.open("rb") as file:
            for raw in file:
                if turn := _read(raw, 0, transcript.owner, Tombstones()).turn:
                    yield turn

    def forget(self, owner: Owner, session_id: str, turn_ids: AbstractSet[str]) -> None:
        """Erase the lines of turns, also of those that were taken back."""

        def is_gone(raw: bytes) -> bool:
            turn = _read(raw, 0, owner, Tombstones()).turn
            return turn is not None and turn.id in turn_ids

        path = self.path(owner, session_id)
        if path.exists():
            self.erase(path, is_gone)

    def erase_unreadable(self, path: Path, is_wanted: Callable[[str], bool]) -> None:
        """Erase those of the lines that are no turns whose raw text is wanted."""
        self.erase(path, lambda raw: not _is_sound(raw, path) and is_wanted(raw.decode("utf-8", "replace")))

    # Reading

    def owners(self) -> Iterator[Owner]:
        for folder in sorted(path for path in self.folder.glob("*") if path.is_dir()):
            owner = _owner_of_card(folder) or _owner_of_lines(folder)
            if owner and self._folder(owner) == folder:
                yield owner

    def owner(self, name: str) -> Owner | None:
        """The agent with this id or slug, read from the files."""
        return next((owner for owner in self.owners() if name.removeprefix("@") in (owner.id, owner.slug)), None)

    def all(self) -> Iterator[Transcript]:
        for owner in self.owners():
            yield from self.everything_of(owner)

    def everything_of(self, owner: Owner) -> Iterator[Transcript]:
        for path in sorted(self._folder(owner).glob("*.jsonl")):
            if path.name != "deleted.jsonl":
                yield Transcript(owner, path)

    def names_of(self, owner: Owner) -> set[str]:
        """The names of the files in an agent's folder."""
        try:
            return {entry.name for entry in os.scandir(self._folder(owner))}
        except FileNotFoundError:
            return set()

    def of(self, owner: Owner, session_id: str) -> Transcript:
        return Transcript(owner, self.path(owner, session_id))

    def lines(self, transcript: Transcript, after: int = 0) -> Iterator[Line]:
        """The lines from an offset on. An incomplete last line is left out, because it may still be being written."""
        tombstones = self.tombstones(transcript.owner)
        end = after
        try:
            with transcript.path.open("rb") as file:
                file.seek(after)
                while raw := file.readline(LONGEST_LINE):
                    end += len(raw)
                    if not raw.endswith(b"\n"):
                        if len(raw) < LONGEST_LINE:
                            return
                        while raw and not raw.endswith(b"\n"):
                            raw = file.readline(LONGEST_LINE)
                            end += len(raw)
                        yield Line(end, None, f"a line of more than {LONGEST_LINE:,} bytes")
                    else:
                        yield _read(raw, end, transcript.owner, tombstones) if raw.strip() else Line(end, None)
        except FileNotFoundError:
            return
        except OSError as problem:  # the disk cannot read the rest of it
            yield Line(end, None, f"from here on the file cannot be read ({problem.strerror})")

    def rewound(self, transcript: Transcript, session_id: str) -> tuple[Branch, ...]:
        """The turns that were taken back, as branches: each run of them follows the valid turn before it."""
        tombstones = self.tombstones(transcript.owner)
        if not any(session == session_id for session, _ in tombstones.turns):
            return ()
        only_sessions = Tombstones(tombstones.sessions)
        turns = [turn for turn in self.everything_in(transcript) if not only_sessions.cover(turn)]
        valid = {turn.id for turn in turns if not tombstones.cover(turn)}
        branches: list[Branch] = []
        after: str | None = None
        for is_valid, group in groupby(turns, key=lambda turn: turn.id in valid):
            run = list(group)
            if is_valid:
                after = run[-1].id
            else:
                said = {turn.id: Said(turn.id, turn.role, turn.content, turn.ts, turn.tool) for turn in run}
                branches.append(Branch(after, tuple(said.values())))
        return tuple(branches)

    def turn_ids(self, transcript: Transcript) -> set[str]:
        return {line.turn.id for line in self.lines(transcript) if line.turn}

    def tombstones(self, owner: Owner) -> Tombstones:
        """The deletions of sessions and turns of an agent. Turns recorded later are there again."""
        path = self._folder(owner) / "deleted.jsonl"
        try:
            size = path.stat().st_size
            read, tombstones = self._read.get(path, (0, Tombstones()))
            if size != read:  # the file only grows
                tombstones = _tombstones(path.read_bytes())
                self._read[path] = (size, tombstones)
        except FileNotFoundError:
            return Tombstones()
        return tombstones

    # Places

    def path(self, owner: Owner, session_id: str) -> Path:
        return self._folder(owner) / f"{_file_name(session_id)}.jsonl"

    def _folder(self, owner: Owner) -> Path:
        usual = self.folder / _file_name(owner.slug)
        if owner.id not in self._renamed and not usual.is_dir():
            for folder in (path.parent for path in self.folder.glob("*/agent.json")):
                if (card := _owner_of_card(folder)) and card.id == owner.id:
                    self._renamed[owner.id] = folder
        return self._renamed.get(owner.id, usual)


def _file_name(name: str) -> str:
    """A file name for any name. Unusual characters are quoted, and long names get a hash."""
    quoted = quote(name, safe=" -_.~")
    if quoted.startswith(".") or quoted == "deleted":
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}"
    if len(quoted) > _LONGEST_NAME:
        return f"{quoted[:80]}~{hashlib.sha256(name.encode()).hexdigest()[:40]}"
    return quoted


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Deletion times of sessions and of single turns."""

    sessions: dict[str, datetime] = field(default_factory=dict)
    turns: dict[tuple[str, str], datetime] = field(default_factory=dict)

    def cover(self, turn: Turn) -> bool:
        found = (self.sessions.get(turn.session_id), self.turns.get((turn.session_id, turn.id)))
        return any(at is not None and turn.recorded_at <= at for at in found)


def _tombstones(raw: bytes) -> Tombstones:
    tombstones = Tombstones()
    for line in raw.splitlines():
        with suppress(orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError, OverflowError):
            data = orjson.loads(line)
            at = parse(data["deleted_at"])
            if "turn_ids" in data:
                tombstones.turns.update({(data["session_id"], id): at for id in data["turn_ids"]})
            else:
                tombstones.sessions[data["session_id"]] = at
    return tombstones


def _owner_of_card(folder: Path) -> Owner | None:
    try:
        data = orjson.loads((folder / "agent.json").read_bytes())
        more = {name: _text(data[name]) for name in ("program", "project", "owner") if name in data}
        return Owner(_text(data["id"]), _text(data["slug"]), _text(data["name"]), **more)
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return None


def _owner_of_lines(folder: Path) -> Owner | None:
    """The owner of a folder without a valid agent.json: the lines name the agent, the folder has its slug."""
    slug = unquote(folder.name)
    for path in sorted(folder.glob("*.jsonl")):
        with suppress(OSError), path.open("rb") as file:
            for raw in islice(iter(lambda: file.readline(LONGEST_LINE), b""), 100):
                with suppress(orjson.JSONDecodeError, KeyError, TypeError):
                    if isinstance(agent_id := orjson.loads(raw)["agent_id"], str) and agent_id:
                        return Owner(agent_id, slug, slug)
    return Owner(slug, slug, slug) if (folder / "agent.json").exists() else None


def _line(turn: Turn, at: datetime) -> bytes:
    line = {field.name: getattr(turn, field.name) for field in fields(turn)} | {"recorded_at": at}
    known = {name: value for name, value in line.items() if value or name not in ("project", "program", "tool")}
    return orjson.dumps(known, option=_OPTIONS)


def _read(raw: bytes, end: int, owner: Owner, tombstones: Tombstones) -> Line:
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return Line(end, None, "a line that is not whole, or not JSON")
    try:
        known: dict[str, Any] = {name: _text(data[name]) for name in ("id", "session_id", "role", "content")}
        for name in ("project", "program"):
            if isinstance(data.get(name), str) and data[name]:
                known[name] = _text(data[name])
        ts, recorded_at = parse(data["ts"]), parse(data.get("recorded_at") or data["ts"])
        turn = Turn(agent_id=owner.id, ts=ts, recorded_at=recorded_at, tool=tool_facts(data.get("tool")), **known)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return Line(end, None, "a line that is not a turn")
    return Line(end, None if tombstones.cover(turn) else turn)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value.replace("\0", "\ufffd")  # no database stores a null character


def _aside(path: Path) -> Path:
    return path.with_suffix(".damaged")


def _is_sound(raw: bytes, path: Path) -> bool:
    if not raw.strip():
        return True
    try:
        data = orjson.loads(raw)
        if path.name == "deleted.jsonl":
            _text(data["session_id"])
            return parse(data["deleted_at"]) is not None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return False
    return _read(raw, 0, Owner("", "", ""), Tombstones()).problem is None


def _write_synced(path: Path, data: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | mode, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _is_torn(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            return size > 0 and file.read(1) != b"\n"
    except OSError:
        return False
