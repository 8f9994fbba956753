"""Reading what people bring, a portion at a time, prepared to be written.

A portion is as much as one change should hold. Much is read in a process of its own: reading is work for Python, and a
second process does it beside the one that writes, not in turns with it. That process holds nothing: whoever stops it
loses nothing, and if it dies, what was read until then is kept.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from palaver.importers.files.discover import Found, Skipped, look
from palaver.model.library import Brought
from palaver.model.projects import project_of
from palaver.store.library import archive
from palaver.store.library.archive import PreparedConversation
from palaver.text.tool_output import ToolOutput

MESSAGES_AT_ONCE = 2_000
CHARACTERS_AT_ONCE = 4_000_000
MESSAGES_AMONG_OTHERS = 500
"""What is uploaded is written by a server: whoever posts there waits for at most so many."""
CHARACTERS_OF_PIECES_AT_ONCE = 1_000_000
PIECES_AT_ONCE = 100

MUCH = 32_000_000
"""Bytes. Below, a process of its own would be started for nothing."""
PIPE = 2**20
TURN_SECONDS = 0.0005
OBJECTS_LET_BE = 200_000
READER = "from palaver.operations.archive.import_batches import send_portions; send_portions()"


@dataclass(frozen=True, slots=True)
class Portion:
    """Some of what was found, and how far reading has come."""

    importer: str = ""
    conversations: list[PreparedConversation] = field(default_factory=list)
    pieces: list[Brought] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    bytes_total: int = 0
    """Of what has been found so far, how large it is and how much of it has been read."""
    bytes_read: int = 0


async def portions(
    paths: list[Path], *, are_uploads: bool = False, is_much: bool = False, tool_output: ToolOutput = "short"
) -> AsyncGenerator[Portion]:
    """While one is written, the next one is read."""
    is_apart = is_much and sys.executable
    source: _Source = (_Apart if is_apart else _Beside)(paths, are_uploads, tool_output)
    with _taking_turns():
        coming = asyncio.ensure_future(asyncio.to_thread(source.next))
        try:
            while (portion := await coming) is not None:
                coming = asyncio.ensure_future(asyncio.to_thread(source.next))
                yield portion
        finally:
            source.stop()
            await asyncio.wait((coming,))
            source.close()


def read(paths: Iterable[Path], *, are_uploads: bool, tool_output: ToolOutput = "short") -> Generator[Portion]:
    """Everything that is found at these paths, in either process."""
    total = done = 0
    for found in look(paths, are_uploads=are_uploads, tool_output=tool_output):
        if isinstance(found, Skipped):
            yield Portion(skipped=[found], bytes_total=total, bytes_read=done)
            continue
        total += found.size
        for portion in _portions_of(found, are_uploads):
            yield replace(portion, bytes_total=total, bytes_read=done + min(found.read, found.size))
        done += found.size
        yield Portion(found.importer, bytes_total=total, bytes_read=done)


def _portions_of(found: Found, are_uploads: bool) -> Iterator[Portion]:
    portion, messages, characters = Portion(found.importer), 0, 0
    most = MESSAGES_AMONG_OTHERS if are_uploads else MESSAGES_AT_ONCE
    for one in found.conversations():
        if isinstance(one, Skipped):
            portion.skipped.append(one)
            continue
        if one.project:
            one = replace(one, project=project_of(one.project, is_here=not are_uploads))
        portion.conversations.append(archive.prepare(one))
        messages += len(one.messages)
        characters += sum(len(said.text) for said in one.messages)
        if messages >= most or characters >= CHARACTERS_AT_ONCE:
            yield portion
            portion, messages, characters = Portion(found.importer), 0, 0
    yield portion
    portion, characters = Portion(found.importer), 0
    for piece in found.pieces():
        if isinstance(piece, Skipped):
            portion.skipped.append(piece)
            continue
        portion.pieces.append(piece)
        characters += len(getattr(piece.piece, "content", ""))
        if characters >= CHARACTERS_OF_PIECES_AT_ONCE or len(portion.pieces) >= PIECES_AT_ONCE:
            yield portion
            portion, characters = Portion(found.importer), 0
    yield portion


def is_much(paths: Iterable[Path]) -> bool:
    """Enough to prepare for it."""
    size = 0
    for path in paths:
        for folder, _, names in os.walk(path) if os.path.isdir(path) else [("", (), [path])]:
            for name in names:
                with suppress(OSError, ValueError):
                    size += os.stat(os.path.join(folder, name)).st_size
                if size >= MUCH:
                    return True
    return False


class _Source(Protocol):
    def next(self) -> Portion | None: ...

    def stop(self) -> None:
        """Nobody wants more of it, though somebody may just be asking."""

    def close(self) -> None: ...


class _Beside:
    """Read by a thread of this process."""

    def __init__(self, paths: list[Path], are_uploads: bool, tool_output: ToolOutput) -> None:
        self._portions = read(paths, are_uploads=are_uploads, tool_output=tool_output)

    def next(self) -> Portion | None:
        return next(self._portions, None)

    def stop(self) -> None:
        """It ends with the portion it is at."""

    def close(self) -> None:
        self._portions.close()


class _Apart:
    """Read by a process of its own, which sends every portion through a pipe and waits when nobody takes them."""

    def __init__(self, paths: list[Path], are_uploads: bool, tool_output: ToolOutput) -> None:
        self._sought: tuple[list[Path], bool, ToolOutput] | None = (paths, are_uploads, tool_output)
        self._is_over = False
        # -P: modules come from where ours do, and none from the current folder.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", READER],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            bufsize=PIPE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def next(self) -> Portion | None:
        if self._is_over:
            return None
        asked, told = self._process.stdin, self._process.stdout
        assert asked is not None
        assert told is not None
        if self._sought:
            with suppress(BrokenPipeError), asked:
                pickle.dump(self._sought, asked)
            self._sought = None
        try:
            sent = pickle.load(told)  # noqa: S301 - our own process wrote it
        except (EOFError, pickle.UnpicklingError):
            self._is_over = True
            ended = self._process.wait()
            why = f"its reader was ended by signal {-ended}" if ended < 0 else f"its reader ended with {ended}"
            return Portion(skipped=[Skipped("the rest", f"{why}; import it again to go on", is_error=True)])
        if isinstance(sent, Exception):
            raise sent
        portion: Portion | None = sent
        self._is_over = portion is None
        return portion

    def stop(self) -> None:
        self._is_over = True
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def send_portions() -> None:
    """What that process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that asked hears it too, and stops this one
    gc.set_threshold(OBJECTS_LET_BE, *gc.get_threshold()[1:])
    paths, are_uploads, tool_output = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own process wrote it
    with os.fdopen(os.dup(1), "wb", PIPE) as told:
        os.dup2(2, 1)  # whatever prints something does not print into the portions
        with suppress(BrokenPipeError):
            try:
                for portion in read(paths, are_uploads=are_uploads, tool_output=tool_output):
                    told.write(pickle.dumps(portion, pickle.HIGHEST_PROTOCOL))
                    told.flush()
            except BrokenPipeError:
                raise
            except Exception as problem:
                told.write(pickle.dumps(problem))
            else:
                told.write(pickle.dumps(None))
            told.flush()


@contextmanager
def _taking_turns() -> Iterator[None]:
    """The thread that writes needs Python often and shortly: let it not wait 5 ms each time for the one that reads.

    And what was read is let go of by itself: looking for circles after every few hundred objects would find none.
    """
    before, usual = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(TURN_SECONDS)
    gc.set_threshold(max(usual[0], OBJECTS_LET_BE), *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        sys.setswitchinterval(before)
