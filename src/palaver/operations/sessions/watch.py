"""Follow the session files of coding agents, and record their turns as sessions.

First all files are read, then changes as they are written. Files that only grow (Claude Code, Codex, Copilot CLI) are
read line by line. A mark for each file says how far it has been read. Files that are written again as a whole (Gemini
CLI, opencode, Cline) are read again as a whole. A mark for each session in them has the ids of its turns and a hash of
each, so only turns that are new or changed are recorded.

A mark moves after the turns before it are recorded, so nothing is lost at a stop; turns that are read twice are known
by their ids. Turns and marks go to a `TurnStore`: a workspace on this machine, or a server.

A session stays recorded when its file is deleted. Turns that were rewound or rolled back in the file are removed. A
session that was deleted here is not recorded again from its file. Keys and tokens of well-known kinds are masked. Calls
of palaver's own tools and their results are left out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from palaver.errors import Forbidden, PalaverError, Unauthorized, Unavailable
from palaver.importers import BYTE_ORDER_MARK
from palaver.importers.coding_agents.session_files import SessionFiles
from palaver.importers.registry import CHATS, WholeSessions
from palaver.model.people import program_of
from palaver.model.privacy import PrivacyRules
from palaver.model.sessions import Mark
from palaver.operations.sessions import watched_file
from palaver.operations.sessions.recording import MergedTurn, MergedTurns, MergeTurns
from palaver.operations.sessions.watched_file import FilePiece, FileState, ReadOptions, WatchedFile
from palaver.text.tool_output import ToolOutput

log = logging.getLogger("palaver")

Source = SessionFiles | WholeSessions
SOURCES: dict[str, Source] = {one.name: one for one in CHATS if isinstance(one, SessionFiles | WholeSessions)}
"""The readers by agent. A file goes to the first that recognises it."""
PROGRAMS = "Claude Code, Codex, Gemini CLI, opencode, Copilot CLI or Cline"

FILES_AT_ONCE = 4
"""Several files are read at a time, so that small ones share a commit."""
TURNS_AT_ONCE, BYTES_AT_ONCE, IDS_AT_ONCE = 500, 1_000_000, 1_000
"""The turns that are recorded at once, their characters, and the ids of turns to remove."""
GENTLE_TURNS_AT_ONCE = 25
"""A server records few turns at once, because requests wait for the transaction."""
GENTLE_PAUSE = 2.0
"""A server then pauses for this many times as long as recording them took."""
REST_FACTOR = 4.0
"""A file that is read as a whole is then left alone for this many times as long as reading it took."""
RESCAN_SECONDS = 30.0
RESCAN_ALONE_SECONDS = 3.0
"""The interval of scans where the system does not report changes."""
NOTICE_MILLIS = 1_000
DEBOUNCE_MILLIS = 200

UNKNOWN = "no session of a known kind"
CLOSED = "cannot be read"
EVERYTHING = PrivacyRules()
"""No list of this machine. Folders can still say that they are private."""
LINK = "linked to a place outside the folder"


def default_folders(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The folders and files where the programs keep their sessions, whether or not they exist."""
    home = Path(environ.get("HOME") or Path.home())
    config = home / ("Library/Application Support" if sys.platform == "darwin" else ".config")
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex_home = Path(environ.get("CODEX_HOME") or home / ".codex")
    folders = [
        claude / "projects",
        home / ".config" / "claude" / "projects",
        codex_home / "sessions",
        codex_home / "archived_sessions",
        Path(environ.get("GEMINI_CLI_HOME") or home) / ".gemini" / "tmp",
        Path(environ.get("COPILOT_HOME") or home / ".copilot") / "session-state",
        Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "opencode" / "opencode.db",
        home / ".cline" / "data" / "tasks",
        config / "Code" / "User" / "globalStorage" / "saoudrizwan.claude-dev" / "tasks",
    ]
    return list(dict.fromkeys(folders))


class TurnStore(Protocol):
    """Where turns and marks are kept: in a workspace on this machine, or turns on a server and marks in a file."""

    async def open(self, paths: list[str] | None) -> dict[str, Mark]:
        """Prepare for recording. Returns the marks of these files, or of all files."""

    async def keep_mark(self, mark: Mark, instead_of: str | None) -> None:
        """Store a mark. `instead_of` is the previous name of the file."""

    async def merge(self, request: MergeTurns) -> MergedTurns:
        """Record turns, each once. The agent is registered if it is new."""


@dataclass(frozen=True, slots=True)
class NewTurns:
    """The number of turns that were added to a session."""

    agent: str
    session_id: str
    turns: int


@dataclass(slots=True)
class WatchCounts:
    """Numbers about the files that were read so far."""

    done: int = 0
    of: int = 0
    files: int = 0
    turns: int = 0
    sessions: set[tuple[str, str]] = field(default_factory=set)
    skipped_lines: Counter[str] = field(default_factory=Counter)
    skipped_files: Counter[str] = field(default_factory=Counter)


class _FileClosed(Exception):
    """A file cannot be read, or not to its end."""


@dataclass(slots=True)
class Watch:
    """Reads the files in some places into a store of turns."""

    store: TurnStore
    places: Sequence[Path]
    agent: str | None = None
    tool_output: ToolOutput = "short"
    progress: Callable[[WatchCounts], None] = lambda counts: None
    rules: PrivacyRules = EVERYTHING
    is_gentle: bool = False
    """Requests are answered in the same process, and must not wait for long."""
    counts: WatchCounts = field(default_factory=WatchCounts)
    _marks: dict[str, Mark] = field(default_factory=dict)
    _paths: dict[str, str] = field(default_factory=dict)
    """The path of each marked file, by device and inode."""
    _seen: dict[Path, FileState] = field(default_factory=dict)
    _links: set[Path] = field(default_factory=set)
    _not_before: dict[Path, float] = field(default_factory=dict)
    """When a file that is read as a whole may be read again, by the clock of the event loop."""

    def __post_init__(self) -> None:
        self.places = [Path(os.path.realpath(place)) for place in self.places]

    async def read_all(self, *, retry: bool = False, only_files: bool = False) -> WatchCounts:
        """Read all files, the oldest first. With `retry`, turns that cannot be stored now are read again later.

        `only_files`: the places are single files. Then nothing else is looked at, which is faster.
        """
        paths = await asyncio.to_thread(self._find_changed)
        keys = [os.fsencode(path).decode("utf-8", "backslashreplace") for path in paths] if only_files else None
        self._marks = await self.store.open(keys)
        self._paths = {mark.place: mark.path for mark in self._marks.values() if mark.place}
        self.counts.of = len(paths)
        left = iter(paths)

        async def work() -> None:
            for path in left:
                await (self._read_or_retry(path) if retry else self._read_file(path))
                self.counts.done += 1
                self.progress(self.counts)

        tasks = [asyncio.create_task(work()) for _ in range(1 if self.is_gentle else FILES_AT_ONCE)]
        try:
            await asyncio.gather(*tasks)
        finally:
            await _cancel(tasks)
        return self.counts

    async def follow(self, report: Callable[[NewTurns], None]) -> None:
        """Read changes as they are written, until cancelled."""
        changed: asyncio.Queue[Path | None] = asyncio.Queue()
        tasks = [
            asyncio.create_task(self._listen(changed, is_deep=True)),
            asyncio.create_task(self._listen(changed, is_deep=False)),
            asyncio.create_task(_rescan(changed, RESCAN_SECONDS)),
        ]
        try:
            while True:
                paths = {await changed.get()}
                while not changed.empty():
                    paths.add(changed.get_nowait())
                for path in await asyncio.to_thread(self._find_changed, paths):
                    loop = asyncio.get_running_loop()
                    if (later := self._not_before.get(path, 0.0)) > loop.time():
                        loop.call_at(later, changed.put_nowait, path)
                        continue
                    for new in await self._read_or_retry(path):
                        report(new)
        finally:
            await _cancel(tasks)

    async def _read_or_retry(self, path: Path) -> list[NewTurns]:
        try:
            return await self._read_file(path)
        except (Unauthorized, Forbidden):
            raise
        except PalaverError as problem:
            self._seen.pop(path, None)  # the mark has not moved, so the next scan reads it again
            log.warning("%s could not be recorded, and will be tried again: %s", path.name, problem.message)
            return []

    # Changes

    def _find_changed(self, paths: Iterable[Path | None] = (None,)) -> list[Path]:
        """The files that have changed at these paths, the oldest first. None means all folders."""
        given = {path and path.with_name(path.name.removesuffix(watched_file.WRITE_AHEAD_LOG)) for path in paths}
        found: dict[Path, FileState] = {}
        for path in watched_file.files_below(self.places if None in given else {path for path in given if path}):
            is_below = watched_file.has_session_name(path) and any(place in path.parents for place in self.places)
            if is_below and self._is_link(path):
                continue
            if (is_below or path in self.places) and (state := watched_file.state_of(path)):
                found[path] = state
        return sorted((p for p in found if found[p] != self._seen.get(p)), key=lambda p: (found[p][2], p))

    def _is_link(self, path: Path) -> bool:
        """Whether a path below a place is a link or leads through one. Those that lead out are reported once."""
        target = Path(os.path.realpath(path))
        if target != path and path not in self._links and not any(place in target.parents for place in self.places):
            self._links.add(path)
            self.counts.skipped_files[LINK] += 1
        return target != path

    async def _listen(self, changed: asyncio.Queue[Path | None], *, is_deep: bool) -> None:
        """Put each change that the system reports into the queue: below the folders, or beside the single files."""
        from watchfiles import Change, awatch

        while True:
            roots = self._roots(is_deep)
            if not roots:
                await asyncio.sleep(NOTICE_MILLIS / 1000)
                continue
            try:
                stream = awatch(
                    *roots,
                    watch_filter=None,
                    debounce=DEBOUNCE_MILLIS,
                    rust_timeout=NOTICE_MILLIS,
                    yield_on_timeout=True,
                    recursive=is_deep,
                    ignore_permission_denied=True,
                )
                is_first = True
                async with aclosing(stream):
                    async for changes in stream:
                        for _, path in changes:
                            changed.put_nowait(Path(path))
                        if is_first:  # a change just before the first report may be missing from it
                            changed.put_nowait(None)
                            is_first = False
                        # A deleted folder may come back with the same inode.
                        is_gone = any((Change.deleted, str(root)) in changes for root in roots)
                        if is_gone or self._roots(is_deep) != roots:
                            break
            except FileNotFoundError:  # a folder was deleted meanwhile
                continue
            except (OSError, RuntimeError) as problem:
                log.warning("changes are looked for every few seconds, as the system does not tell: %s", problem)
                await _rescan(changed, RESCAN_ALONE_SECONDS)

    def _roots(self, is_deep: bool) -> dict[Path, tuple[int, int]]:
        """The folders to listen at, with device and inode. For a single file it is its folder: it may be replaced."""
        folders = {place for place in self.places if place.is_dir()}
        wanted = folders if is_deep else {place.parent for place in self.places if place.is_file()}
        roots = {}
        for folder in wanted:
            try:
                found = folder.stat()
            except OSError:
                continue
            roots[folder] = (found.st_dev, found.st_ino)
        return roots

    # One file

    async def _read_file(self, path: Path) -> list[NewTurns]:
        """Record the turns of a file that are not recorded yet."""
        try:
            file = await asyncio.to_thread(watched_file.open_file, path)
        except OSError:
            if await asyncio.to_thread(os.path.exists, path):
                self.counts.skipped_files[CLOSED] += 1
            return []
        before = self._mark_of(file)
        source = SOURCES.get(before.reader) if before else None
        if source is None and file.size:
            head = file.head.removeprefix(BYTE_ORDER_MARK)
            known = (one for one in SOURCES.values() if one.recognises(file.item, head))
            source = await asyncio.to_thread(next, known, None)
            if source is None:
                self.counts.skipped_files[UNKNOWN] += 1
        new: list[NewTurns] = []
        try:
            new = await self._record(file, source, before) if source else []
        except _FileClosed:
            self.counts.skipped_files[CLOSED] += 1
        except OSError as problem:
            raise Unavailable(f"Turns could not be stored: {problem.strerror or problem}.") from problem
        self._seen[path] = file.state
        return new

    def _mark_of(self, file: WatchedFile) -> Mark | None:
        """The mark of a file, also if it was renamed; None if it is new, or was written again from its start."""
        mark = self._marks.get(file.key)
        if mark and (file.matches(mark) or isinstance(SOURCES.get(mark.reader), WholeSessions)):
            return mark
        earlier = self._marks.get(self._paths.get(file.place, ""))
        if earlier is None or not file.matches(earlier):
            return None
        there = watched_file.state_of(Path(earlier.path))
        return earlier if there is None or there[0] != file.place else None

    async def _record(self, file: WatchedFile, source: Source, before: Mark | None) -> list[NewTurns]:
        """Record the turns of a file that are new, changed or gone since its mark."""
        self.counts.files += 1
        program = program_of(source.name)
        agent = self.agent or program
        options = ReadOptions(self.tool_output, self.rules, agent, None if self.agent else program)
        renamed = None
        if isinstance(source, SessionFiles):
            pieces = watched_file.line_pieces(file, source, before, options)
            renamed = before.path if before and before.path != file.key else None
        else:
            pieces = watched_file.whole_pieces(file, source, before, self._marks, options)
        counts: Counter[str] = Counter()
        clock = asyncio.get_running_loop().time
        began = clock()
        piece = await asyncio.to_thread(_next, pieces)
        if not isinstance(source, SessionFiles):
            self._not_before[file.path] = clock() + REST_FACTOR * (clock() - began)
        while piece:
            coming = asyncio.create_task(asyncio.to_thread(_next, pieces))  # read on while these are written
            if piece.turns:
                counts[piece.turns.session] += await self._merge(piece.turns)
            self.counts.skipped_lines += piece.skipped
            await self._keep(piece.mark, renamed)
            self.progress(self.counts)
            piece = await coming
        new = [NewTurns(agent, session_id, count) for session_id, count in counts.items() if count]
        self.counts.sessions |= {(one.agent, one.session_id) for one in new}
        return new

    async def _merge(self, request: MergeTurns) -> int:
        """Record turns in parts. Returns the number of turns that are new or changed."""
        most = GENTLE_TURNS_AT_ONCE if self.is_gentle else TURNS_AT_ONCE
        turns, size = list[list[MergedTurn]](), BYTES_AT_ONCE
        for turn in request.turns:
            if size >= BYTES_AT_ONCE or len(turns[-1]) >= most:
                turns.append([])
                size = 0
            turns[-1].append(turn)
            size += len(turn.content)
        left, removed, count = deque(turns), request.removed, 0
        while left or removed:
            began = time.monotonic()
            part = {"turns": left.popleft() if left else [], "removed": removed[:IDS_AT_ONCE]}
            removed = removed[IDS_AT_ONCE:]
            merged = await self.store.merge(request.model_copy(update=part))
            count += merged.added + merged.changed
            self.counts.turns += merged.added + merged.changed
            if self.is_gentle and len(turns) > 1:
                await asyncio.sleep(GENTLE_PAUSE * (time.monotonic() - began))
        return count

    async def _keep(self, mark: Mark, renamed: str | None = None) -> None:
        if mark == self._marks.get(mark.path):
            return
        await self.store.keep_mark(mark, renamed)
        if renamed:
            self._marks.pop(renamed, None)
        self._marks[mark.path] = mark
        if mark.place:
            self._paths[mark.place] = mark.path


def _next(pieces: Iterator[FilePiece]) -> FilePiece | None:
    try:
        return next(pieces, None)
    except PalaverError:
        raise
    except Exception as problem:  # each codec has errors of its own
        raise _FileClosed from problem


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _rescan(changed: asyncio.Queue[Path | None], seconds: float) -> None:
    """Ask for a scan of all places from time to time: not every file system reports every change."""
    while True:
        await asyncio.sleep(seconds)
        changed.put_nowait(None)
