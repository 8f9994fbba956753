"""A session file of a coding agent: how to know it again after a rename, and its turns in pieces."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from palaver.errors import Unavailable
from palaver.importers import LONGEST_ID, LineReader, ReadProgress, Said, Unreadable, masked_text
from palaver.importers.coding_agents.session_files import SessionFiles
from palaver.importers.files import streams
from palaver.importers.files.sqlite_file import Changed, Locked
from palaver.importers.item import HEAD_BYTES, Item, Skipped
from palaver.importers.registry import CHATS, WholeSessions
from palaver.model.library import Conversation
from palaver.model.privacy import PrivacyRules
from palaver.model.project_file import PRIVATE
from palaver.model.projects import project_of
from palaver.model.sessions import Mark, session_path
from palaver.model.times import iso
from palaver.operations.sessions.recording import MergedTurn, MergeTurns, ToolRequest
from palaver.text.tool_output import CHOICES, ToolOutput

SUFFIXES = (".jsonl", ".jsonl.zst")
NAMES = [name for one in CHATS if isinstance(one, WholeSessions) for name in one.session_names]
"""The names of session files that are read as a whole, with wildcards."""
WRITE_AHEAD_LOG = "-wal"
"""SQLite writes changes to a file with this suffix first."""
IDENTIFYING_BYTES = 1024
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
    def written(self) -> datetime:
        return datetime.fromtimestamp(self.changed / 1e9, UTC)

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

    def lines(self, start: int = 0) -> Iterator[tuple[int, bytes | None]]:
        """Each line with the offset of its end; None for one that is too long. An incomplete last line is left out."""
        source: BinaryIO
        if self.is_compressed:
            source = io.BufferedReader(streams.Unpacked(self.path))
        else:
            source = self.path.open("rb", buffering=1024 * 1024)
        with source:
            if start:
                source.seek(start)
            while raw := source.readline(streams.LONGEST_LINE + 1):
                start += len(raw)
                is_too_long = len(raw) > streams.LONGEST_LINE
                while is_too_long and not raw.endswith(b"\n"):
                    raw = source.readline(streams.LONGEST_LINE)
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
class FilePiece:
    """A part of a file: its turns, the mark to keep when they are recorded, and what was left out for which reason."""

    turns: MergeTurns | None
    mark: Mark
    skipped: Counter[str]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    tool_output: ToolOutput
    rules: PrivacyRules
    agent: str
    program: str | None
    """The program whose turns these are, unless an agent was named for them."""


def turns_to_merge(
    file: WatchedFile,
    session_id: str,
    said: Iterable[Said],
    project: str | None,
    options: ReadOptions,
    removed: Iterable[str] = (),
) -> MergeTurns:
    """The request that records turns and removes others. Readers give valid values, so it is not validated here."""
    turns = [
        MergedTurn.model_construct(
            id=one.id,
            role=one.role,
            content=one.text,
            ts=iso(one.ts or file.written),
            project=project,
            tool=ToolRequest.model_construct(**vars(one.tool)) if one.tool else None,
        )
        for one in said
    ]
    return MergeTurns.model_construct(
        agent=options.agent, session=session_id, turns=turns, removed=sorted(removed), program=options.program
    )


def line_pieces(
    file: WatchedFile, source: SessionFiles, before: Mark | None, options: ReadOptions
) -> Iterator[FilePiece]:
    """Read a file that only grows from its mark on, in pieces that fit into memory."""
    progress = _progress_of(before) if before else None
    start = 0
    if before and progress:
        if before.path == file.key and before.bytes == file.size and not progress.is_forked:
            return
        start = 0 if file.is_compressed else before.bytes
    if progress is None or file.is_compressed:
        progress = source.reader.begin(file.path)
    progress.tool_output = options.tool_output
    progress.is_private = options.rules.why(progress.cwd) is not None
    said: list[Said] = []
    skipped: Counter[str] = Counter()
    begun = end = start
    session_id = ""

    def piece(end: int, removed: Iterable[str] = ()) -> FilePiece:
        nonlocal session_id
        known = replace(progress, title=None, summaries={})  # a mark has no texts of the session
        mark = file.mark(source.name, end, orjson.dumps(asdict(known)).decode())
        if not said and not removed:
            return FilePiece(None, mark, skipped)
        session_id = session_id or progress.session_id or Path(file.key).stem[:LONGEST_ID]
        return FilePiece(turns_to_merge(file, session_id, said, progress.project, options, removed), mark, skipped)

    for end, raw in file.lines(start):
        if raw is None:
            skipped[TOO_LONG] += 1
        if raw is None or not raw.strip():
            progress.lines += 1
            continue
        try:
            said += source.reader.read_line(raw, progress)
        except Unreadable as problem:
            skipped[str(problem)] += 1
        if progress.project is None and progress.cwd:
            progress.project = project_of(progress.cwd)
            progress.is_private = options.rules.why(progress.cwd) is not None
        if progress.is_private and said:
            skipped[PRIVATE] += len(said)
            said = []
        if len(said) >= TURNS_AT_ONCE or end - begun >= BYTES_AT_ONCE:
            yield piece(0 if file.is_compressed else end)
            said, skipped, begun = [], Counter(), end
    end = file.size if file.is_compressed else end
    yield piece(end)
    if progress.is_forked and not progress.is_private:
        gone, said = _find_superseded(file, source.reader, start, options.tool_output)
        skipped, progress.is_forked = Counter(), False
        yield piece(end, gone)


def _progress_of(mark: Mark) -> ReadProgress | None:
    """The progress in a mark; None if another version wrote it. Then the file is read from its start."""
    try:
        return ReadProgress(**orjson.loads(mark.reading))
    except TypeError:
        return None


def _find_superseded(
    file: WatchedFile, reader: LineReader, start: int, tool_output: ToolOutput
) -> tuple[set[str], list[Said]]:
    """Read the whole file. Return the ids of the turns that were rewound in it, and the turns that were rewound up to
    `start`, where the file was read to before, and are valid again."""
    numbers = reader.superseded(raw or b"" for _, raw in file.lines())
    earlier = reader.superseded(raw or b"" for end, raw in file.lines() if end <= start) if start else set()
    progress = reader.begin(file.path)
    progress.tool_output = tool_output
    gone, valid = set[str](), set[str]()
    returned: dict[str, Said] = {}
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
            valid.update(said.id for said in said_here)
            returned |= {said.id: said for said in said_here if progress.lines in earlier}
    return gone - valid, list(returned.values())


# Files that are read as a whole


def whole_pieces(
    file: WatchedFile, source: WholeSessions, before: Mark | None, marks: Mapping[str, Mark], options: ReadOptions
) -> Iterator[FilePiece]:
    """Read a file that is written again as a whole: the turns of each session in it that are new, changed or gone."""
    facts = _facts_of(before)
    if facts.get("state") == list(file.state):
        return
    since = facts.get("since", 0)
    try:
        latest = source.last_change(file.item)
        sessions, skipped = _read_sessions(file, source, since, options.tool_output, options.rules)
    except (Changed, Locked):
        raise Unavailable("another program is writing it") from None
    read = {options.tool_output: sessions}
    for id, session in sessions.items():
        known = _facts_of(marks.get(session_path(file.key, id)))
        kept = known.get("tool_output", options.tool_output)
        if kept not in read and kept in CHOICES:  # a session keeps the choice that it began with
            read[kept], _ = _read_sessions(file, source, since, kept, options.rules)
        session = read.get(kept, sessions).get(id, session)
        digests = {said.id: digest_of(said) for said in session.messages}
        recorded = known.get("turns", {})
        said = [one for one in session.messages if recorded.get(one.id) != digests[one.id]]
        gone = recorded.keys() - digests.keys()
        if said or gone:
            project = project_of(session.project) if session.project else None
            turns = turns_to_merge(file, id, said, project, options, gone).model_copy(update={"replace": True})
            turn_facts = orjson.dumps({"turns": digests, "tool_output": kept}).decode()
            yield FilePiece(turns, Mark(session_path(file.key, id), source.name, "", 0, "", 0, turn_facts), Counter())
    known_now = orjson.dumps({"state": list(file.state), "since": latest}).decode()
    yield FilePiece(None, file.mark(source.name, file.size, known_now), skipped)


def _read_sessions(
    file: WatchedFile, source: WholeSessions, since: int, tool_output: ToolOutput, rules: PrivacyRules
) -> tuple[dict[str, Conversation], Counter[str]]:
    """The sessions of a file by id, and the reasons for which parts were left out. Keys and tokens are masked."""
    sessions: dict[str, Conversation] = {}
    skipped: Counter[str] = Counter()
    for found in source.conversations(replace(file.item, tool_output=tool_output, since=since)):
        if isinstance(found, Skipped):
            skipped[found.why] += found.count
        elif rules.why(found.project):
            skipped[PRIVATE] += len(found.messages)
        else:
            said = tuple(replace(one, text=text) for one in found.messages if (text := masked_text(one.text)))
            sessions[found.id.removeprefix(f"{source.name}:")] = replace(found, messages=said)
    return sessions, skipped


def _facts_of(mark: Mark | None) -> dict[str, Any]:
    """The facts in the mark of a file or session that is read as a whole; empty if another version wrote it."""
    try:
        found = orjson.loads(mark.reading) if mark else {}
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def digest_of(said: Said) -> str:
    """A short hash of a turn. It changes when the turn does."""
    return hashlib.blake2b(f"{said.role}\0{said.text}".encode(), digest_size=6).hexdigest()
