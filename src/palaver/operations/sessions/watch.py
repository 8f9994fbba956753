"""Follow the session files of coding agents (Claude Code, Codex), and record their turns as sessions.

First all files are read, then new lines as they are written. A mark for each file says how far it has been read. It
moves after the turns before it are in a transcript, so nothing is lost at a stop; turns that are read twice are known
by their ids.

A session stays recorded when its file is deleted. Turns that were rewound or rolled back in the file are removed. A
session that was deleted here is not recorded again from its file. Keys and tokens of well-known kinds are masked. Calls
of palaver's own tools and their results are left out.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import orjson

from palaver.errors import Forbidden, PalaverError, Unavailable
from palaver.importers import BYTE_ORDER_MARK, LONGEST_ID, LineReader, ReadProgress
from palaver.importers.chats.session_files import SessionFiles
from palaver.importers.registry import CHATS
from palaver.model.people import Caller
from palaver.model.sessions import Owner, Turn
from palaver.model.times import now
from palaver.operations.sessions.session_index import catch_up_all
from palaver.operations.sessions.sessions import append, owner_or_new, take_back
from palaver.operations.sessions.watched_file import (
    SUFFIXES,
    FileState,
    TurnBatch,
    WatchedFile,
    files_below,
    find_superseded,
    open_file,
    read_turns,
    state_of,
)
from palaver.store.sessions import followed_files
from palaver.store.sessions.followed_files import Mark
from palaver.store.workspaces import Workspace
from palaver.text.tool_output import ToolOutput

log = logging.getLogger("palaver")

READERS: dict[str, LineReader] = {one.name: one.reader for one in CHATS if isinstance(one, SessionFiles)}
"""The readers by agent. A file goes to the first that recognises it."""

FILES_AT_ONCE = 4
"""Several files are read at a time, so that small ones share a commit."""
MANY_BYTES = 256 * 1024
"""For this much new text the ids of all turns of a session are loaded at once."""

RESCAN_SECONDS = 30.0
RESCAN_ALONE_SECONDS = 3.0
"""The interval of scans where the system does not report changes."""
NOTICE_MILLIS = 1_000
DEBOUNCE_MILLIS = 200

UNKNOWN = "no session of a known kind"
CLOSED = "cannot be read"


def default_folders(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The folders where Claude Code and Codex keep their sessions, whether or not they exist."""
    home = Path(environ.get("HOME") or Path.home())
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    codex_home = Path(environ.get("CODEX_HOME") or home / ".codex")
    folders = [
        claude / "projects",
        home / ".config" / "claude" / "projects",
        codex_home / "sessions",
        codex_home / "archived_sessions",
    ]
    return list(dict.fromkeys(folders))


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


class Watch:
    """Reads the files in some places into the sessions of a workspace."""

    def __init__(
        self,
        here: Workspace,
        caller: Caller,
        places: Iterable[Path],
        agent: str | None = None,
        tool_output: ToolOutput = "short",
        progress: Callable[[WatchCounts], None] = lambda counts: None,
    ) -> None:
        if "write" not in caller.scopes:
            raise Forbidden("This token has no 'write' scope. Ask for one that has: palaver token create.")
        self.here = here
        self.counts = WatchCounts()
        self._caller = caller
        self._agent = agent
        self._tool_output: ToolOutput = tool_output
        self._progress = progress
        self._places = [Path(os.path.realpath(place)) for place in places]
        self._owners: dict[str, Owner] = {}
        self._owner_lock = asyncio.Lock()
        self._marks: dict[str, Mark] = {}
        self._paths: dict[str, str] = {}
        """The path of each marked file, by device and inode."""
        self._seen: dict[Path, FileState] = {}

    async def read_all(self, *, retry: bool = False) -> WatchCounts:
        """Read all files, the oldest first. With `retry`, turns that cannot be stored now are read again later."""
        await catch_up_all(self.here)
        marks = await self.here.read(followed_files.marks)
        self._marks = {path: mark for path, mark in marks.items() if mark.reader in READERS and _progress_of(mark)}
        self._paths = {mark.place: mark.path for mark in self._marks.values()}
        paths = await asyncio.to_thread(self._find_changed)
        self.counts.of = len(paths)
        left = iter(paths)

        async def work() -> None:
            for path in left:
                await (self._read_or_retry(path) if retry else self._read_file(path))
                self.counts.done += 1
                self._progress(self.counts)

        tasks = [asyncio.create_task(work()) for _ in range(FILES_AT_ONCE)]
        try:
            await asyncio.gather(*tasks)
        finally:
            await _cancel(tasks)
        return self.counts

    async def follow(self, report: Callable[[NewTurns], None]) -> None:
        """Read new lines as they are written, until cancelled."""
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
                    if new := await self._read_or_retry(path):
                        report(new)
        finally:
            await _cancel(tasks)

    async def _read_or_retry(self, path: Path) -> NewTurns | None:
        try:
            return await self._read_file(path)
        except PalaverError as problem:
            self._seen.pop(path, None)  # the mark has not moved, so the next scan reads it again
            log.warning("%s could not be recorded, and will be tried again: %s", path.name, problem.message)
            return None

    # Changes

    def _find_changed(self, paths: Iterable[Path | None] = (None,)) -> list[Path]:
        """The files that have changed at these paths, the oldest first. None means all folders."""
        given = set(paths)
        found: dict[Path, FileState] = {}
        for path in files_below(self._places if None in given else {path for path in given if path}):
            is_below = path.name.endswith(SUFFIXES) and any(place in path.parents for place in self._places)
            if (is_below or path in self._places) and (state := state_of(path)):
                found[path] = state
        return sorted((p for p in found if found[p] != self._seen.get(p)), key=lambda p: (found[p][2], p))

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

    async def _read_file(self, path: Path) -> NewTurns | None:
        """Record the turns that a file has beyond its mark."""
        try:
            file = await asyncio.to_thread(open_file, path)
        except OSError:
            if await asyncio.to_thread(os.path.exists, path):
                self.counts.skipped_files[CLOSED] += 1
            return None
        before = self._mark_of(file)
        name = before.reader if before else None
        if name is None and file.size:
            head = file.head.removeprefix(BYTE_ORDER_MARK)
            name = next((name for name, reader in READERS.items() if reader.recognises(path, head)), None)
            if name is None:
                self.counts.skipped_files[UNKNOWN] += 1
        new = await self._record(file, name, before) if name else None
        self._seen[path] = file.state
        return new

    def _mark_of(self, file: WatchedFile) -> Mark | None:
        """The mark of a file, also if it was renamed; None if it is new, or was written again from its start."""
        mark = self._marks.get(file.key)
        if mark and file.matches(mark):
            return mark
        earlier = self._marks.get(self._paths.get(file.place, ""))
        if earlier is None or not file.matches(earlier):
            return None
        there = state_of(Path(earlier.path))
        return earlier if there is None or there[0] != file.place else None

    async def _record(self, file: WatchedFile, name: str, before: Mark | None) -> NewTurns | None:
        self.counts.files += 1
        reader = READERS[name]
        progress = _progress_of(before) if before else None
        if before and before.path == file.key and before.bytes == file.size and not (progress and progress.is_forked):
            return None
        start = before.bytes if before and not file.is_compressed else 0
        if progress is None or file.is_compressed:
            progress = reader.begin(file.path)
        progress.tool_output = self._tool_output
        batches = read_turns(file, reader, progress, start)
        try:
            owner = await self._owner(self._agent or name)
            recording = _Recording(self.here, owner, file, is_large=file.size - start > MANY_BYTES)
            last: TurnBatch | None = None
            coming = asyncio.create_task(asyncio.to_thread(_next, batches))
            while batch := await coming:
                coming = asyncio.create_task(asyncio.to_thread(_next, batches))  # read on while these are written
                added = await recording.add(batch)  # on its own line: other files are counted meanwhile
                self.counts.turns += added
                self.counts.skipped_lines += batch.skipped
                await self._move_mark(file, name, batch, before)
                self._progress(self.counts)
                last = batch
            if last and last.progress.is_forked:
                await recording.remove_superseded(reader, last.progress)
                checked = replace(last, progress=replace(last.progress, is_forked=False))
                await self._move_mark(file, name, checked, before)
        except _FileClosed:
            self.counts.skipped_files[CLOSED] += 1
        except OSError as problem:
            raise Unavailable(f"Turns could not be stored: {problem.strerror or problem}.") from problem
        if not recording.turns:
            return None
        self.counts.sessions.add((owner.id, recording.session_id))
        return NewTurns(owner.slug, recording.session_id, recording.turns)

    async def _owner(self, name: str) -> Owner:
        """The agent whose sessions these are. It is registered if it is new."""
        async with self._owner_lock:
            if name not in self._owners:
                owner = await self.here.change(lambda change: owner_or_new(change, self._caller, name))
                await asyncio.to_thread(self.here.transcripts.write_owner, owner)
                self._owners[name] = owner
        return self._owners[name]

    async def _move_mark(self, file: WatchedFile, name: str, batch: TurnBatch, before: Mark | None) -> None:
        mark = file.mark(name, batch.end, orjson.dumps(asdict(batch.progress)).decode())
        if mark == self._marks.get(file.key):
            return
        renamed = before.path if before and before.path != file.key else None
        await self.here.change(lambda change: followed_files.keep(change, mark, renamed))
        if renamed:
            self._marks.pop(renamed, None)
        self._marks[file.key] = mark
        self._paths[file.place] = file.key


class _Recording:
    """The session that the turns of a file are written to."""

    def __init__(self, here: Workspace, owner: Owner, file: WatchedFile, *, is_large: bool) -> None:
        self.session_id = ""
        self.turns = 0
        self._here, self._owner, self._file, self._is_large = here, owner, file, is_large
        self._known: set[str] | None = None
        self._deleted_at: datetime | None = None

    async def add(self, batch: TurnBatch) -> int:
        """Record the turns that are new; returns their number."""
        if not batch.said:
            return 0
        await self._begin(batch.progress)
        known = await self._known_ids([said.id for said in batch.said])
        written = datetime.fromtimestamp(self._file.changed / 1e9, UTC)
        turns: dict[str, Turn] = {}
        for said in batch.said:
            ts = said.ts or written
            if said.id in known or said.id in turns or (self._deleted_at and ts <= self._deleted_at):
                continue
            turns[said.id] = Turn(
                said.id, self.session_id, self._owner.id, said.role, said.text, ts, now(), batch.progress.project
            )
        if turns:
            await append(self._here, self._owner, self.session_id, list(turns.values()))
            self.turns += len(turns)
            known.update(turns)
        return len(turns)

    async def remove_superseded(self, reader: LineReader, progress: ReadProgress) -> None:
        """Compare the session with the whole file: remove turns that were rewound, and add turns that are back."""
        await self._begin(progress)
        here, owner = self._here, self._owner
        removed = {turn_id for at, turn_id in here.transcripts.taken_back(owner) if at == self.session_id}
        gone, returned = await asyncio.to_thread(find_superseded, self._file, reader, removed, progress.tool_output)
        recorded = await asyncio.to_thread(self._ids_in_transcript)
        if gone := gone & recorded:
            await take_back(here, owner, self.session_id, gone)
            self._known = None
        if returned := [said for said in returned if said.id not in recorded]:
            await self.add(TurnBatch(returned, 0, progress, Counter()))

    async def _begin(self, progress: ReadProgress) -> None:
        if not self.session_id:
            self.session_id = progress.session_id or Path(self._file.key).stem[:LONGEST_ID]
            stones = await asyncio.to_thread(self._here.transcripts.tombstones, self._owner)
            self._deleted_at = stones.get(self.session_id)

    async def _known_ids(self, ids: list[str]) -> set[str]:
        """The ids that are recorded: of these for a small file, of the whole session for a large one."""
        owner, session_id = self._owner, self.session_id
        is_indexed = self._here.settings.sessions_index
        if is_indexed and not self._is_large:
            return await self._here.read(lambda read: followed_files.known(read, owner, session_id, ids))
        if self._known is None and is_indexed:
            self._known = await self._here.read(lambda read: followed_files.turn_ids(read, owner, session_id))
        elif self._known is None:
            self._known = await asyncio.to_thread(self._ids_in_transcript)
        return self._known

    def _ids_in_transcript(self) -> set[str]:
        return self._here.transcripts.turn_ids(self._here.transcripts.of(self._owner, self.session_id))


def _progress_of(mark: Mark) -> ReadProgress | None:
    """The progress in a mark; None if another version wrote it. Then the file is read from its start."""
    try:
        return ReadProgress(**orjson.loads(mark.reading))
    except TypeError:
        return None


def _next(batches: Iterator[TurnBatch]) -> TurnBatch | None:
    try:
        return next(batches, None)
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
