"""A session file of a coding agent: how to know it again after a rename, and its turns in batches."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from palaver.importers import LineReader, ReadProgress, Said, Unreadable
from palaver.importers.files import zstd
from palaver.model.projects import project_of
from palaver.store.sessions.followed_files import Mark
from palaver.text.tool_output import ToolOutput

SUFFIXES = (".jsonl", ".jsonl.zst")
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

    def matches(self, mark: Mark) -> bool:
        """Whether the mark was made for this file, and the file is at least as long as it was then."""
        if self.size < mark.bytes or len(self.head) < mark.head_bytes:
            return False
        return _hash(self.head[: mark.head_bytes]) == mark.head_hash

    def mark(self, reader: str, end: int, progress: str) -> Mark:
        """The mark of a file that has been read up to `end`."""
        head = self.head[:IDENTIFYING_BYTES]
        return Mark(self.key, reader, self.place, len(head), _hash(head), end, progress)

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
        return WatchedFile(path, *_state(os.fstat(file.fileno())), file.read(HEAD_BYTES))


def state_of(path: Path) -> FileState | None:
    """The state of a file, which changes when the file does; None if it is no regular file."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return _state(found) if stat.S_ISREG(found.st_mode) else None


def _state(found: os.stat_result) -> FileState:
    return f"{found.st_dev}:{found.st_ino}", found.st_size, found.st_mtime_ns


def _hash(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()


def files_below(places: Iterable[Path]) -> Iterator[Path]:
    """The session files in these folders, and each place that is no folder."""
    for place in places:
        if place.is_dir():
            for folder, _, names in os.walk(place):
                yield from (Path(folder, name) for name in names if name.endswith(SUFFIXES))
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


def read_turns(file: WatchedFile, reader: LineReader, progress: ReadProgress, start: int) -> Iterator[TurnBatch]:
    """Read a file from an offset on, in batches that fit into memory."""
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
        if len(said) >= TURNS_AT_ONCE or end - begun >= BYTES_AT_ONCE:
            yield TurnBatch(said, 0 if file.is_compressed else end, replace(progress), skipped)
            said, skipped, begun = [], Counter(), end
    yield TurnBatch(said, file.size if file.is_compressed else end, replace(progress), skipped)


def find_superseded(
    file: WatchedFile, reader: LineReader, removed: set[str], tool_output: ToolOutput
) -> tuple[set[str], list[Said]]:
    """Read the whole file. Return the ids that were rewound in it, and the turns of `removed` that are valid again."""
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
            valid.update({said.id: said if said.id in removed else None for said in said_here})
    return gone - valid.keys(), [said for said in valid.values() if said]
