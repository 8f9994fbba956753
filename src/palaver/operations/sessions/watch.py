"""Following the session files of other agents' programs, and recording their turns as sessions of our own.

First everything that is there is read; then what is written, as it is written. A mark for each file says how far it has
been read. It moves once the turns before it are in a transcript, so ending at any moment loses nothing; turns that are
read twice are known by their ids.

What the programs delete stays recorded. What was rewound or rolled back in a file leaves the session it was recorded
in: found is what the user saw last. A session that was deleted here does not come back by reading its file again.
Keys and tokens of well-known kinds are masked: the kind of each takes its place. Calls of palaver's own tools and their
results are left out.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import orjson

from palaver.errors import Forbidden, PalaverError, Unavailable
from palaver.importers import (
    LONGEST_ID,
    MARK,
    Reader,
    Reading,
    Said,
    Unreadable,
)
from palaver.importers.chats import claude_code, codex
from palaver.importers.files import zstd
from palaver.model.people import Caller
from palaver.model.projects import project_of
from palaver.model.sessions import Owner, Turn
from palaver.model.times import now
from palaver.operations.sessions.session_index import catch_up_all
from palaver.operations.sessions.sessions import append, owner_or_new, take_back
from palaver.store.sessions import followed_files
from palaver.store.sessions.followed_files import Mark
from palaver.store.workspaces import Workspace
from palaver.text.tool_output import ToolOutput

log = logging.getLogger("palaver")

READERS: dict[str, Reader] = {"codex": codex, "claude-code": claude_code}
"""Each by the name of the agent whose sessions it reads; the first that recognises a file has it."""

SUFFIXES = (".jsonl", ".jsonl.zst")
HEAD = 64 * 1024
IDENTIFYING = 1024
LONGEST_LINE = 32 * 1024 * 1024
TURNS_AT_ONCE = 1_000
BYTES_AT_ONCE = 4 * 1024 * 1024
FILES_AT_ONCE = 4  # small ones share a commit
MANY_BYTES = 256 * 1024

RESCAN_SECONDS = 30.0
RESCAN_ALONE_SECONDS = 3.0  # where the system cannot tell what changes
NOTICE_MILLIS = 1_000
DEBOUNCE_MILLIS = 200

TOO_LONG = "over 32 MB"
UNKNOWN = "no session of a known kind"
CLOSED = "cannot be read"


def usual_places(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Where the programs keep their sessions, whether or not they are here."""
    home = Path(environ.get("HOME") or Path.home())
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex_home = Path(environ.get("CODEX_HOME") or home / ".codex")
    places = [
        claude / "projects",
        home / ".config" / "claude" / "projects",
        codex_home / "sessions",
        codex_home / "archived_sessions",
    ]
    return list(dict.fromkeys(places))


@dataclass(frozen=True, slots=True)
class Grown:
    """A session that has more turns than before."""

    agent: str
    session_id: str
    turns: int


@dataclass(slots=True)
class Tally:
    """What has been read so far."""

    done: int = 0
    of: int = 0
    files: int = 0
    turns: int = 0
    sessions: set[tuple[str, str]] = field(default_factory=set)
    skipped_lines: Counter[str] = field(default_factory=Counter)
    skipped_files: Counter[str] = field(default_factory=Counter)


# A file, as it is now


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    place: str
    size: int
    changed: int
    head: bytes

    @property
    def key(self) -> str:
        """Its path as text: a name that is no UTF-8 can be kept too."""
        return os.fsencode(self.path).decode("utf-8", "backslashreplace")

    @property
    def sight(self) -> tuple[str, int, int]:
        return self.place, self.size, self.changed

    @property
    def is_compressed(self) -> bool:
        return self.path.name.endswith(".zst")

    def is_what(self, mark: Mark) -> bool:
        """The file the mark was made for, at least as long as it was."""
        if self.size < mark.bytes or len(self.head) < mark.head_bytes:
            return False
        return _hash(self.head[: mark.head_bytes]) == mark.head_hash


def _hash(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()


def _sight(path: Path) -> tuple[str, int, int] | None:
    """What changes when a file does; None if it is no plain file."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return _seen(found) if stat.S_ISREG(found.st_mode) else None


def _seen(found: os.stat_result) -> tuple[str, int, int]:
    return f"{found.st_dev}:{found.st_ino}", found.st_size, found.st_mtime_ns


def _opened(path: Path) -> _File:
    with path.open("rb") as file:
        return _File(path, *_seen(os.fstat(file.fileno())), file.read(HEAD))


def _files_below(places: Iterable[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_dir():
            for folder, _, names in os.walk(place):
                yield from (Path(folder, name) for name in names if name.endswith(SUFFIXES))
        else:
            yield place


# Its lines


@dataclass(frozen=True, slots=True)
class _Batch:
    said: list[Said]
    end: int
    reading: Reading
    skipped: Counter[str]


def _batches(file: _File, reader: Reader, reading: Reading, start: int) -> Iterator[_Batch]:
    """What a file says from a place on, in pieces that fit into memory."""
    said: list[Said] = []
    skipped: Counter[str] = Counter()
    begun = end = start
    with _plain(file, start) as source:
        for end, raw in _lines(source, start):
            if raw is None:
                skipped[TOO_LONG] += 1
            if raw is None or not raw.strip():
                reading.lines += 1
                continue
            try:
                said += reader.read_line(raw, reading)
            except Unreadable as problem:
                skipped[str(problem)] += 1
            if reading.project is None and reading.cwd:
                reading.project = project_of(reading.cwd)
            if len(said) >= TURNS_AT_ONCE or end - begun >= BYTES_AT_ONCE:
                yield _Batch(said, 0 if file.is_compressed else end, replace(reading), skipped)
                said, skipped, begun = [], Counter(), end
    yield _Batch(said, file.size if file.is_compressed else end, replace(reading), skipped)


def _taken_back(file: _File, reader: Reader, taken: set[str], tool_output: ToolOutput) -> tuple[set[str], list[Said]]:
    """Of the whole file: the ids of what was taken back in it, and what was `taken` back before and is there again."""
    numbers = reader.superseded(_raw(file))
    reading = reader.begin(file.path)
    reading.tool_output = tool_output
    gone: set[str] = set()
    kept: dict[str, Said | None] = {}
    for raw in _raw(file):
        if not raw.strip():
            reading.lines += 1
            continue
        try:
            said_here = reader.read_line(raw, reading)
        except Unreadable:
            continue
        if reading.lines in numbers:
            gone.update(said.id for said in said_here)
        else:
            kept.update({said.id: said if said.id in taken else None for said in said_here})
    return gone - kept.keys(), [said for said in kept.values() if said]


def _raw(file: _File) -> Iterator[bytes]:
    """All its lines; one that is too long is an empty one here."""
    with _plain(file, 0) as source:
        yield from (raw or b"" for _, raw in _lines(source, 0))


def _reading(mark: Mark) -> Reading | None:
    """Where reading stood; None if another version wrote it down, who knew other things. Then it begins anew."""
    try:
        return Reading(**orjson.loads(mark.reading))
    except TypeError:
        return None


class _Closed(Exception):
    """A file that cannot be read, or not any further."""


def _next(batches: Iterator[_Batch]) -> _Batch | None:
    try:
        return next(batches, None)
    except Exception as problem:  # each codec has errors of its own
        raise _Closed from problem


def _lines(source: BinaryIO, place: int) -> Iterator[tuple[int, bytes | None]]:
    """Each line with where it ends; None for one that is too long. The last is left out while it has no end."""
    while raw := source.readline(LONGEST_LINE + 1):
        place += len(raw)
        is_too_long = len(raw) > LONGEST_LINE
        while is_too_long and not raw.endswith(b"\n"):
            raw = source.readline(LONGEST_LINE)
            place += len(raw)
            if not raw:
                return
        if not raw.endswith(b"\n"):
            return
        yield place, None if is_too_long else raw


def _plain(file: _File, start: int) -> BinaryIO:
    if file.is_compressed:
        return io.BufferedReader(zstd.Unpacked(file.path))
    source = file.path.open("rb", buffering=1024 * 1024)
    source.seek(start)
    return source


# Following


class Watch:
    """The files of some places, read into the sessions of a workspace."""

    def __init__(
        self,
        here: Workspace,
        caller: Caller,
        places: Iterable[Path],
        agent: str | None = None,
        tool_output: ToolOutput = "short",
        progress: Callable[[Tally], None] = lambda tally: None,
    ) -> None:
        if "write" not in caller.scopes:
            raise Forbidden("This token has no 'write' scope. Ask for one that has: palaver token create.")
        self.here = here
        self.tally = Tally()
        self._caller = caller
        self._agent = agent
        self._tool_output: ToolOutput = tool_output
        self._progress = progress
        self._places = [Path(os.path.realpath(place)) for place in places]
        self._owners: dict[str, Owner] = {}
        self._meeting = asyncio.Lock()
        self._marks: dict[str, Mark] = {}
        self._by_place: dict[str, str] = {}
        self._seen: dict[Path, tuple[str, int, int]] = {}

    async def first_pass(self, *, is_patient: bool = False) -> Tally:
        """Read everything that is there, the oldest first. Who is patient tries again later what cannot be recorded."""
        await catch_up_all(self.here)
        marks = await self.here.read(followed_files.marks)
        self._marks = {path: mark for path, mark in marks.items() if mark.reader in READERS and _reading(mark)}
        self._by_place = {mark.place: mark.path for mark in self._marks.values()}
        paths = await asyncio.to_thread(self._changed)
        self.tally.of = len(paths)
        left = iter(paths)
        lanes = [asyncio.create_task(self._look_at_each(left, is_patient)) for _ in range(FILES_AT_ONCE)]
        try:
            await asyncio.gather(*lanes)
        finally:
            await _end(lanes)
        return self.tally

    async def _look_at_each(self, left: Iterator[Path], is_patient: bool) -> None:
        for path in left:
            await (self._look_patiently(path) if is_patient else self._look_at(path))
            self.tally.done += 1
            self._progress(self.tally)

    async def follow(self, told: Callable[[Grown], None]) -> None:
        """Read what is written, as it is written, until cancelled."""
        changed: asyncio.Queue[Path | None] = asyncio.Queue()
        reminders = [
            asyncio.create_task(self._listen(changed, is_deep=True)),
            asyncio.create_task(self._listen(changed, is_deep=False)),
            asyncio.create_task(_remind(changed, RESCAN_SECONDS)),
        ]
        try:
            while True:
                paths = {await changed.get()}
                while not changed.empty():
                    paths.add(changed.get_nowait())
                for path in await asyncio.to_thread(self._changed, paths):
                    if grown := await self._look_patiently(path):
                        told(grown)
        finally:
            await _end(reminders)

    async def _look_patiently(self, path: Path) -> Grown | None:
        try:
            return await self._look_at(path)
        except PalaverError as problem:
            self._seen.pop(path, None)  # the mark has not moved: it is read again with the next rescan
            log.warning("%s could not be recorded, and will be tried again: %s", path.name, problem.message)
            return None

    # What has changed

    def _changed(self, paths: Iterable[Path | None] = (None,)) -> list[Path]:
        """Of these files, and of those in these folders (None is everywhere), what is not as it was, oldest first."""
        given = set(paths)
        below = _files_below(self._places if None in given else {path for path in given if path})
        found = {path: sight for path in below if (sight := _sight(path)) and self._is_ours(path)}
        return sorted((p for p in found if found[p] != self._seen.get(p)), key=lambda p: (found[p][2], p))

    def _is_ours(self, path: Path) -> bool:
        if path in self._places:
            return True
        return path.name.endswith(SUFFIXES) and any(place in path.parents for place in self._places)

    async def _listen(self, changed: asyncio.Queue[Path | None], *, is_deep: bool) -> None:
        """Hear from the system what changes: below the folders, or beside the single files."""
        while True:
            roots = self._roots(is_deep)
            if not roots:
                await asyncio.sleep(NOTICE_MILLIS / 1000)
                continue
            try:
                await self._listen_at(roots, changed, is_deep)
            except FileNotFoundError:  # gone since we looked
                continue
            except (OSError, RuntimeError) as problem:
                log.warning("changes are looked for every few seconds, as the system does not tell: %s", problem)
                await _remind(changed, RESCAN_ALONE_SECONDS)

    async def _listen_at(
        self, roots: dict[Path, tuple[int, int]], changed: asyncio.Queue[Path | None], is_deep: bool
    ) -> None:
        """Until the folders themselves are other ones."""
        from watchfiles import Change, awatch

        is_first = True
        stream = awatch(
            *roots,
            watch_filter=None,
            debounce=DEBOUNCE_MILLIS,
            rust_timeout=NOTICE_MILLIS,
            yield_on_timeout=True,
            recursive=is_deep,
            ignore_permission_denied=True,
        )
        async with aclosing(stream):
            async for changes in stream:
                for _, path in changes:
                    changed.put_nowait(Path(path))
                if is_first:  # from here on we hear everything; what was written just before is looked for
                    changed.put_nowait(None)
                    is_first = False
                is_gone = any((Change.deleted, str(root)) in changes for root in roots)  # its inode may be used again
                if is_gone or self._roots(is_deep) != roots:
                    return

    def _roots(self, is_deep: bool) -> dict[Path, tuple[int, int]]:
        """The folders to listen at, as they are now. A single file may be replaced, so it is its folder that tells."""
        folders = {place for place in self._places if place.is_dir()}
        wanted = folders if is_deep else {place.parent for place in self._places if place.is_file()}
        roots = {}
        for folder in wanted:
            try:
                found = folder.stat()
            except OSError:
                continue
            roots[folder] = (found.st_dev, found.st_ino)
        return roots

    # One file

    async def _look_at(self, path: Path) -> Grown | None:
        """Record what a file has beyond its mark."""
        try:
            file = await asyncio.to_thread(_opened, path)
        except OSError:
            if await asyncio.to_thread(os.path.exists, path):
                self.tally.skipped_files[CLOSED] += 1
            return None
        before = self._mark_of(file)
        name = before.reader if before else self._reader_of(file)
        if name is None:
            self._seen[path] = file.sight
            return None
        grown = await self._read_on(file, name, before)
        self._seen[path] = file.sight
        return grown

    def _mark_of(self, file: _File) -> Mark | None:
        """The mark of the file, also when it has been renamed; None if it is new, or begins anew."""
        mark = self._marks.get(file.key)
        if mark and file.is_what(mark):
            return mark
        earlier = self._marks.get(self._by_place.get(file.place, ""))
        if earlier is None or not file.is_what(earlier):
            return None
        there = _sight(Path(earlier.path))
        return earlier if there is None or there[0] != file.place else None

    def _reader_of(self, file: _File) -> str | None:
        if file.size == 0:
            return None
        head = file.head.removeprefix(MARK)
        name = next((name for name, reader in READERS.items() if reader.recognises(file.path, head)), None)
        if name is None:
            self.tally.skipped_files[UNKNOWN] += 1
        return name

    async def _read_on(self, file: _File, name: str, before: Mark | None) -> Grown | None:
        self.tally.files += 1
        reader = READERS[name]
        stood = _reading(before) if before else None
        if before and before.path == file.key and before.bytes == file.size and not (stood and stood.is_forked):
            return None
        start, reading = 0, reader.begin(file.path)
        if before and not file.is_compressed:
            start, reading = before.bytes, stood or reading
        reading.tool_output = self._tool_output
        batches = _batches(file, reader, reading, start)
        try:
            owner = await self._owner(name)
            record = _Record(self.here, owner, file, is_much=file.size - start > MANY_BYTES)
            last: _Batch | None = None
            coming = asyncio.create_task(asyncio.to_thread(_next, batches))
            while batch := await coming:
                coming = asyncio.create_task(asyncio.to_thread(_next, batches))  # read on while these are written
                added = await record.add(batch)
                self.tally.turns += added
                self.tally.skipped_lines += batch.skipped
                await self._move(file, name, batch, before)
                self._progress(self.tally)
                last = batch
            if last and last.reading.is_forked:
                await record.take_back(reader, last.reading)
                await self._move(file, name, replace(last, reading=replace(last.reading, is_forked=False)), before)
        except _Closed:
            self.tally.skipped_files[CLOSED] += 1
        except OSError as problem:
            raise Unavailable(f"Turns could not be stored: {problem.strerror or problem}.") from problem
        if not record.turns:
            return None
        self.tally.sessions.add((owner.id, record.session_id))
        return Grown(owner.slug, record.session_id, record.turns)

    async def _owner(self, name: str) -> Owner:
        called = self._agent or name
        async with self._meeting:  # whoever comes first introduces the agent
            if called not in self._owners:
                owner = await self.here.change(lambda change: owner_or_new(change, self._caller, called))
                await asyncio.to_thread(self.here.transcripts.write_owner, owner)
                self._owners[called] = owner
        return self._owners[called]

    async def _move(self, file: _File, name: str, batch: _Batch, before: Mark | None) -> None:
        head = file.head[:IDENTIFYING]
        reading = orjson.dumps(asdict(batch.reading)).decode()
        mark = Mark(file.key, name, file.place, len(head), _hash(head), batch.end, reading)
        if mark == self._marks.get(file.key):
            return
        renamed = before.path if before and before.path != file.key else None
        await self.here.change(lambda change: followed_files.keep(change, mark, renamed))
        if renamed:
            self._marks.pop(renamed, None)
        self._marks[file.key] = mark
        self._by_place[file.place] = file.key


class _Record:
    """The session a file is recorded in, while it is read."""

    def __init__(self, here: Workspace, owner: Owner, file: _File, *, is_much: bool) -> None:
        self.session_id = ""
        self.turns = 0
        self._here, self._owner, self._file, self._is_much = here, owner, file, is_much
        self._known: set[str] | None = None
        self._deleted_at: datetime | None = None

    async def add(self, batch: _Batch) -> int:
        """Record what is new of it; returns how many turns that were."""
        if not batch.said:
            return 0
        await self._begin(batch.reading)
        known = await self._known_of(batch.said)
        written = datetime.fromtimestamp(self._file.changed / 1e9, UTC)
        turns: dict[str, Turn] = {}
        for said in batch.said:
            ts = said.ts or written
            if said.id in known or said.id in turns or (self._deleted_at and ts <= self._deleted_at):
                continue
            turns[said.id] = Turn(
                said.id, self.session_id, self._owner.id, said.role, said.text, ts, now(), batch.reading.project
            )
        if turns:
            await append(self._here, self._owner, self.session_id, list(turns.values()))
            self.turns += len(turns)
            known.update(turns)
        return len(turns)

    async def _known_of(self, said: list[Said]) -> set[str]:
        """The ids that need not be recorded: looked up one by one where little is read, else read once and kept."""
        owner, session_id = self._owner, self.session_id
        is_indexed = self._here.settings.sessions_index
        if is_indexed and not self._is_much:
            ids = [one.id for one in said]
            return await self._here.read(lambda read: followed_files.known(read, owner, session_id, ids))
        if self._known is None and is_indexed:
            self._known = await self._here.read(lambda read: followed_files.turn_ids(read, owner, session_id))
        elif self._known is None:
            self._known = await asyncio.to_thread(self._from_transcript)
        return self._known

    async def _begin(self, reading: Reading) -> None:
        if not self.session_id:
            self.session_id = reading.session_id or Path(self._file.key).stem[:LONGEST_ID]
            stones = await asyncio.to_thread(self._here.transcripts.tombstones, self._owner)
            self._deleted_at = stones.get(self.session_id)

    async def take_back(self, reader: Reader, reading: Reading) -> None:
        """Hold what was recorded against the whole file: what was taken back there goes, what came back comes."""
        await self._begin(reading)
        here, owner, file = self._here, self._owner, self._file
        taken = {turn_id for at, turn_id in here.transcripts.taken_back(owner) if at == self.session_id}
        gone, returned = await asyncio.to_thread(_taken_back, file, reader, taken, reading.tool_output)
        recorded = await asyncio.to_thread(self._from_transcript)
        if gone := gone & recorded:
            await take_back(here, owner, self.session_id, gone)
            self._known = None
        if returned := [said for said in returned if said.id not in recorded]:
            await self.add(_Batch(returned, 0, reading, Counter()))

    def _from_transcript(self) -> set[str]:
        return self._here.transcripts.turn_ids(self._here.transcripts.of(self._owner, self.session_id))


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _remind(changed: asyncio.Queue[Path | None], seconds: float) -> None:
    """Look everywhere, now and again: not every file system tells of every change."""
    while True:
        await asyncio.sleep(seconds)
        changed.put_nowait(None)
