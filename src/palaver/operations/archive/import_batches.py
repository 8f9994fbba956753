"""Read the files of an import in batches that are ready to be written, in a thread or in a process of its own.

A batch is as much as one transaction should hold. Large imports are read in a second process, so that reading runs
beside writing. That process holds no state. If it dies, the batches before stay written.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from palaver import child_process
from palaver.importers.chats import canonical_db
from palaver.importers.discover import ImportSource, Skipped, find_sources
from palaver.model.library import ImportedPiece
from palaver.model.privacy import PrivacyRules
from palaver.model.project_file import PRIVATE
from palaver.model.projects import project_of
from palaver.operations.library.import_items import content_digest, source_of
from palaver.store.engines.database import PrepareText
from palaver.store.library import archive
from palaver.store.library.archive import PreparedConversation
from palaver.store.sessions.forgotten import Forgotten, item_key
from palaver.text.tool_output import ToolOutput

MESSAGES_AT_ONCE = 2_000
CHARACTERS_AT_ONCE = 4_000_000
MESSAGES_AT_ONCE_BESIDE_POSTS = 500
"""A smaller batch, for imports whose transactions posts wait for."""
CHARACTERS_OF_PIECES_AT_ONCE = 1_000_000
PIECES_AT_ONCE = 100

LARGE_BYTES = 32_000_000
"""An import of this size is read in a process of its own."""
PIPE_BYTES = 2**20
SWITCH_SECONDS = 0.0005
COLLECTION_THRESHOLD = 200_000
NICENESS = 10
"""The priority of an import. The usual one is 0, the lowest 19."""
FORGOTTEN = "it was forgotten"
READER = "from palaver.operations.archive.import_batches import send_batches; send_batches()"


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """The files to read, and how."""

    paths: list[Path]
    are_uploads: bool = False
    messages_at_once: int = MESSAGES_AT_ONCE
    """About how many messages a batch has."""
    tool_output: ToolOutput = "short"
    prepare_text: PrepareText | None = None
    """A part of the work of indexing that the engine wants to be done by the reader."""
    rules: PrivacyRules = field(default_factory=PrivacyRules)
    """What is kept out on this machine."""
    forgotten: Forgotten | None = None
    known: Mapping[str, str] | None = None
    """The fingerprints of the conversations that are stored. With them the paths are databases to follow."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A part of an import, and how far reading has come."""

    importer: str = ""
    conversations: list[PreparedConversation] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    """The ids of conversations whose fingerprint is known."""
    pieces: list[ImportedPiece] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    bytes_total: int = 0
    """The size of the files that were found so far."""
    bytes_read: int = 0


async def read_batches(request: ImportRequest, *, is_large: bool = False) -> AsyncGenerator[Batch]:
    """Yield each batch; the next one is read while the caller writes it."""
    # The working folder stays the same, because paths are relative to it.
    reader = child_process.with_pipes("-c", READER, bufsize=PIPE_BYTES) if is_large and sys.executable else None
    batches = _batches_from(reader, request) if reader else batches_of(request)
    with _tuned_for_two_threads:
        coming = asyncio.ensure_future(asyncio.to_thread(next, batches, None))
        try:
            while (batch := await asyncio.shield(coming)) is not None:
                coming = asyncio.ensure_future(asyncio.to_thread(next, batches, None))
                yield batch
        finally:
            if reader:
                reader.kill()  # a thread that waits for its next batch goes on
            await asyncio.wait((coming,))
            batches.close()
            if reader and reader.stdout:
                reader.stdout.close()
                reader.wait()


def batches_of(request: ImportRequest) -> Generator[Batch]:
    """Find and read the files. This runs in either process. Only a database that is followed raises errors."""
    total = done = 0
    sources: Iterable[ImportSource | Skipped]
    if request.known is None:
        sources = find_sources(request.paths, are_uploads=request.are_uploads, tool_output=request.tool_output)
    else:
        sources = [
            ImportSource(canonical_db.name, path.name, path.stat().st_size, partial(canonical_db.read_database, path))
            for path in request.paths
        ]
    for source in sources:
        if isinstance(source, Skipped):
            yield Batch(skipped=[source], bytes_total=total, bytes_read=done)
            continue
        total += source.size
        for batch in _batches_of_source(source, request):
            yield replace(batch, bytes_total=total, bytes_read=done + min(source.read, source.size))
        done += source.size
        yield Batch(source.importer, bytes_total=total, bytes_read=done)


def _batches_of_source(source: ImportSource, request: ImportRequest) -> Iterator[Batch]:
    batch, messages, characters, of_pieces = Batch(source.importer), 0, 0, 0
    for one in source.contents():
        if isinstance(one, Skipped):
            batch.skipped.append(one)
        elif isinstance(one, ImportedPiece):
            if request.forgotten and request.forgotten.has(item_key(source_of(one).name, content_digest(one))):
                batch.skipped.append(Skipped(one.origin, FORGOTTEN))
                continue
            batch.pieces.append(one)
            of_pieces += len(getattr(one.piece, "content", ""))
        else:
            if request.forgotten:
                before, one = one, request.forgotten.left_of(one)
                if before.messages and not one.messages:
                    batch.skipped.append(Skipped(one.id, FORGOTTEN))
                    continue
            if request.known and request.known.get(one.id) == archive.fingerprint_of(one):
                batch.unchanged.append(one.id)
                continue
            if request.rules.why(one.project):
                batch.skipped.append(Skipped(one.title or one.id, PRIVATE))
                continue
            if one.project:
                one = replace(one, project=project_of(one.project, is_here=not request.are_uploads))
            batch.conversations.append(archive.prepare(one, request.prepare_text))
            messages += len(one.messages)
            characters += sum(len(said.text) for said in one.messages)
        if (
            messages >= request.messages_at_once
            or characters >= CHARACTERS_AT_ONCE
            or of_pieces >= CHARACTERS_OF_PIECES_AT_ONCE
            or len(batch.pieces) >= PIECES_AT_ONCE
        ):
            yield batch
            batch, messages, characters, of_pieces = Batch(source.importer), 0, 0, 0
    yield batch


def is_large(paths: Iterable[Path]) -> bool:
    """Whether the files at these paths have LARGE_BYTES or more together."""
    size = 0
    for path in paths:
        for folder, _, names in os.walk(path) if os.path.isdir(path) else [("", (), [path])]:
            for name in names:
                with suppress(OSError, ValueError):
                    size += os.stat(os.path.join(folder, name)).st_size
                if size >= LARGE_BYTES:
                    return True
    return False


def _batches_from(reader: subprocess.Popen[bytes], request: ImportRequest) -> Generator[Batch]:
    """The batches that a process of its own reads. It sends each through a pipe, and waits while the pipe is full."""
    assert reader.stdin is not None
    assert reader.stdout is not None
    with suppress(BrokenPipeError), reader.stdin:
        pickle.dump(request, reader.stdin)
    while True:
        try:
            sent = pickle.load(reader.stdout)  # noqa: S301 - our own process wrote it
        except (EOFError, pickle.UnpicklingError):
            code = reader.wait()
            why = f"its reader was ended by signal {-code}" if code < 0 else f"its reader ended with {code}"
            yield Batch(skipped=[Skipped("the rest", f"{why}; import it again to go on", is_error=True)])
            return
        if sent is None:
            return
        if isinstance(sent, Exception):
            raise sent
        yield sent


def lower_priority() -> None:
    """Let other processes run first. With nothing else to run, an import takes no longer."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, max(NICENESS, os.getpriority(os.PRIO_PROCESS, 0)))


def send_batches() -> None:
    """The main function of the reading process."""
    lower_priority()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process gets it too, and stops this one
    gc.set_threshold(COLLECTION_THRESHOLD, *gc.get_threshold()[1:])
    request: ImportRequest = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own process wrote it
    end: Exception | None = None
    with os.fdopen(os.dup(1), "wb", PIPE_BYTES) as pipe, suppress(BrokenPipeError):
        os.dup2(2, 1)  # prints must not get into the pipe
        try:
            for batch in batches_of(request):
                pipe.write(pickle.dumps(batch, pickle.HIGHEST_PROTOCOL))
                pipe.flush()
        except BrokenPipeError:
            raise
        except Exception as problem:
            end = problem
        pickle.dump(end, pipe)
        pipe.flush()


class _Tuning:
    """Settings of the interpreter while files are imported in this process.

    Threads switch more often, so that the writer does not wait 5 ms for the reader each time. The garbage collector
    runs less often: the batches hold no cycles. Imports may overlap. The first sets the values, and the last restores
    them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._imports = 0
        self._interval, self._threshold = sys.getswitchinterval(), gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._imports += 1
            if self._imports == 1:
                self._interval, self._threshold = sys.getswitchinterval(), gc.get_threshold()
                sys.setswitchinterval(SWITCH_SECONDS)
                gc.set_threshold(max(self._threshold[0], COLLECTION_THRESHOLD), *self._threshold[1:])

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._imports -= 1
            if not self._imports:
                gc.set_threshold(*self._threshold)
                sys.setswitchinterval(self._interval)


_tuned_for_two_threads = _Tuning()
