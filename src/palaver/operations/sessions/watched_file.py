"""A session file of a coding agent: how to know it again after a rename, and its turns in batches or as a whole."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import BinaryIO

from palaver.importers import LineReader, ReadProgress, Said, Unreadable, masked_text
from palaver.importers.files import zstd
from palaver.importers.item import Item, Skipped
from palaver.importers.registry import CHATS, WholeSessions
from palaver.model.privacy import PrivacyRules
from palaver.model.project_file import PRIVATE
from palaver.model.projects import project_of
from palaver.model.sessions import Mark, session_path
from palaver.text.tool_output import ToolOutput

SUFFIXES = (".jsonl", ".jsonl.zst")
NAMES = [name for one in CHATS if isinstance(one, WholeSessions) for name in one.session_names]
"""The names of session files that are read as a whole, with wildcards."""
WRITE_AHEAD_LOG = "-wal"
"""SQLite writes changes to a file with this suffix first."""
HEAD_BYTES = 64 * 1024
IDENTIFYING_BYTES = 1024
LONGEST_LINE = 32 * 1024 * 1024
TURNS_AT_ONCE = 1_000
BYTES_AT_ONCE = 4 * 1024 * 1024

TOO_LONG = "over 32 MB"

FileState = tuple[str, int, int]
"""Device and inode, size, and time of the last change."""


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """A file as it was when it was opened."""

    path: Path
    place: str
    size: int
    changed: int
    head: bytes

    @property
    def key(self) -> str:
        """The path as text that can be stored, even if it is not UTF-8."""
        return os.fsencode(self.path).decode("utf-8", "backslashreplace")

    @property
    def state(self) -> FileState:
        return self.place, self.size, self.changed

    @property
    def is_compressed(self) -> bool:
        return self.path.name.endswith(".zst")

    @property
    def item(self) -> Item:
        return Item(self.path.name, self.size, self.path, lambda: self.path.open("rb"))

    def matches(self, mark: Mark) -> bool:
        """Whether the mark was made for this file, and the file is at least as long as it was then."""
        if self.size < mark.bytes or len(self.head) < mark.head_bytes:
            return False
        return _hash(self.head[: mark.head_bytes]) == mark.head_hash

    def mark(self, reader: str, end: int, progress: str) -> Mark:
        """The mark of a file that has been read up to `end`."""
        head = self.head[:IDENTIFYING_BYTES]
        return Mark(self.key, reader, self.place, len(head), _hash(head), end, progress)

    def mark_of_session(self, reader: str, session_id: str, progress: str) -> Mark:
        """The mark of one session in a file that is read as a whole."""
        return Mark(session_path(self.key, session_id), reader, "", 0, "", 0, progress)

    def lines(self, start: int = 0) -> Iterator[tuple[int, bytes | None]]:
        """Each line with the offset of its end; None for one that is too long. An incomplete last line is left out."""
        source: BinaryIO
        if self.is_compressed:
            source = io.BufferedReader(zstd.Unpacked(self.path))
        else:
            source = self.path.open("rb", buffering=1024 * 1024)
        with source:
            if start:
                source.seek(start)
            while raw := source.readline(LONGEST_LINE + 1):
                start += len(raw)
                is_too_long = len(raw) > LONGEST_LINE
                while is_too_long and not raw.endswith(b"\n"):
                    raw = source.readline(LONGEST_LINE)
                    start += len(raw)
                    if not raw:
                        return
                if not raw.endswith(b"\n"):
                    return
                yield start, None if is_too_long else raw


def open_file(path: Path) -> WatchedFile:
    with path.open("rb") as file:
        return WatchedFile(path, *_state(path, os.fstat(file.fileno())), file.read(HEAD_BYTES))


def state_of(path: Path) -> FileState | None:
    """The state of a file, which changes when the file does; None if it is no regular file."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return _state(path, found) if stat.S_ISREG(found.st_mode) else None


def _state(path: Path, found: os.stat_result) -> FileState:
    place, size, changed = f"{found.st_dev}:{found.st_ino}", found.st_size, found.st_mtime_ns
    if path.suffix == ".db":
        with suppress(OSError):
            log = path.with_name(path.name + WRITE_AHEAD_LOG).stat()
            size, changed = size + log.st_size, max(changed, log.st_mtime_ns)
    return place, size, changed


def _hash(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()


def has_session_name(path: Path) -> bool:
    """Whether a file in a session folder may be a session, by its name."""
    return path.name.endswith(SUFFIXES) or any(fnmatch(path.name, name) for name in NAMES)


def files_below(places: Iterable[Path]) -> Iterator[Path]:
    """The session files in these folders, and each place that is no folder."""
    for place in places:
        if place.is_dir():
            for folder, _, names in os.walk(place):
                yield from (path for name in names if has_session_name(path := Path(folder, name)))
        else:
            yield place


# Turns


@dataclass(frozen=True, slots=True)
class TurnBatch:
    """Some turns of a file, and the progress after them."""

    said: list[Said]
    end: int
    progress: ReadProgress
    skipped: Counter[str]


def read_turns(
    file: WatchedFile, reader: LineReader, progress: ReadProgress, start: int, rules: PrivacyRules
) -> Iterator[TurnBatch]:
    """Read a file from an offset on, in batches that fit into memory."""
    progress.is_private = rules.why(progress.cwd) is not None
    said: list[Said] = []
    skipped: Counter[str] = Counter()
    begun = end = start
    for end, raw in file.lines(start):
        if raw is None:
            skipped[TOO_LONG] += 1
        if raw is None or not raw.strip():
            progress.lines += 1
            continue
        try:
            said += reader.read_line(raw, progress)
        except Unreadable as problem:
            skipped[str(problem)] += 1
        if progress.project is None and progress.cwd:
            progress.project = project_of(progress.cwd)
            progress.is_private = rules.why(progress.cwd) is not None
        if progress.is_private and said:
            skipped[PRIVATE] += len(said)
            said = []
        if len(said) >= TURNS_AT_ONCE or end - begun >= BYTES_AT_ONCE:
            yield TurnBatch(said, 0 if file.is_compressed else end, replace(progress), skipped)
            said, skipped, begun = [], Counter(), end
    yield TurnBatch(said, file.size if file.is_compressed else end, replace(progress), skipped)


def find_superseded(
    file: WatchedFile, reader: LineReader, removed: set[str] | None, tool_output: ToolOutput
) -> tuple[set[str], list[Said]]:
    """Read the whole file. Return the ids that were rewound in it, and the turns of `removed` that are valid again.

    Without `removed`, all valid turns are returned.
    """
    numbers = reader.superseded(raw or b"" for _, raw in file.lines())
    progress = reader.begin(file.path)
    progress.tool_output = tool_output
    gone: set[str] = set()
    valid: dict[str, Said | None] = {}
    for _, raw in file.lines():
        if not raw or not raw.strip():
            progress.lines += 1
            continue
        try:
            said_here = reader.read_line(raw, progress)
        except Unreadable:
            continue
        if progress.lines in numbers:
            gone.update(said.id for said in said_here)
        else:
            valid.update({said.id: said if removed is None or said.id in removed else None for said in said_here})
    return gone - valid.keys(), [said for said in valid.values() if said]


# Files that are read as a whole


@dataclass(frozen=True, slots=True)
class WholeSession:
    """A session as it is in a file now."""

    id: str
    project: str | None
    said: list[Said]


def read_sessions(
    file: WatchedFile, source: WholeSessions, tool_output: ToolOutput, since: int, rules: PrivacyRules
) -> tuple[dict[str, WholeSession], Counter[str]]:
    """The sessions of a file by id, and the reasons for which parts were left out. Keys and tokens are masked."""
    sessions: dict[str, WholeSession] = {}
    skipped: Counter[str] = Counter()
    for found in source.conversations(replace(file.item, tool_output=tool_output, since=since)):
        if isinstance(found, Skipped):
            skipped[found.why] += found.count
            continue
        if rules.why(found.project):
            skipped[PRIVATE] += len(found.messages)
            continue
        id = found.id.removeprefix(f"{source.name}:")
        said = [replace(one, text=text) for one in found.messages if (text := masked_text(one.text))]
        sessions[id] = WholeSession(id, project_of(found.project) if found.project else None, said)
    return sessions, skipped


def digest_of(said: Said) -> str:
    """A short hash of a turn. It changes when the turn does."""
    return hashlib.blake2b(f"{said.role}\0{said.text}".encode(), digest_size=6).hexdigest()
