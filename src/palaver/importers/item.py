"""The interface of importers: the file they read (`Item`), and the conversations and pieces they return.

An importer, built in or from another package (entry point group `palaver.importers`), is an object with

    name                                    "chatgpt": the origin of its conversations, and how their ids begin
    recognises(item, head) -> bool          whether the file has this format; `head` is its first bytes
    conversations(item) -> Iterator         the conversations of the file, and `Skipped` for parts that are left out
    pieces(item) -> Iterator                or: the notes, media, characters and prompts of the file

It reads the item's stream, or the file at the item's path if there is one, and nothing else. It raises `Unreadable` if
it cannot go on; the conversations before are kept.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from palaver.importers import LONGEST_ID, Unreadable, clean, parse_time, storable_text, tool_call, truncate
from palaver.model.library import Branch, Conversation, ImportedPiece, Said, ToolFacts
from palaver.model.times import EPOCH
from palaver.text.tool_output import ToolOutput

HEAD_BYTES = 64 * 1024
LONGEST_TITLE = 500
MOST_BRANCHES = 500
LONGEST_BRANCHES = 2_000_000
"""The most branches of one conversation, and the most characters in all of them. Further ones are left out."""
LONGEST_CONVERSATION = 100_000_000
"""The most characters of one conversation. The rest is left out and reported."""

_NUMBER = re.compile(r"\s*[+-]?\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,3})?\s*")


@dataclass(frozen=True)
class Item:
    """A file to import, in a folder or in a zip."""

    name: str
    """The name to show: `export.zip › conversations.json`."""
    size: int
    path: Path | None
    """The path, or None inside a zip."""
    open: Callable[[], BinaryIO]
    """Opens a new stream."""
    inside: str = ""
    """The path within the folder that is imported, the same on every machine: `vault/recipes/bread.md`."""
    tool_output: ToolOutput = "full"
    """How much to keep of the tool calls of coding agents and of their output."""
    since: int = 0
    """A database may leave out conversations that were last changed before this time (milliseconds since 1970)."""

    @property
    def file_name(self) -> str:
        return self.path.name if self.path else self.name.rpartition("/")[2].rpartition(" › ")[2]


@dataclass(frozen=True)
class Skipped:
    """Something that was left out, and why. The summary of the import shows it."""

    name: str
    why: str
    count: int = 1
    is_error: bool = False
    """The user named this path, and it cannot be read."""


class Importer(Protocol):
    @property
    def name(self) -> str: ...

    def recognises(self, item: Item, head: bytes) -> bool: ...

    def conversations(self, item: Item) -> Iterator[Conversation | Skipped]: ...


class LibraryImporter(Protocol):
    """An importer of notes, media, characters or prompts."""

    @property
    def name(self) -> str: ...

    def recognises(self, item: Item, head: bytes) -> bool: ...

    def pieces(self, item: Item) -> Iterator[ImportedPiece | Skipped]: ...


# Functions for importers


class RawMessage(NamedTuple):
    """A message as it is in a file: id and text may have any type."""

    id: Any
    role: str
    text: Any
    ts: datetime | None
    tool: ToolFacts | None = None


class RawBranch(NamedTuple):
    """Messages beside the branch that was shown last. `after` is the id of the message that they follow."""

    after: str | None
    messages: list[RawMessage | Said]


@dataclass(frozen=True)
class CollectedMessages:
    """The messages of a conversation that can be stored."""

    said: tuple[Said, ...]
    is_cut: bool = False


def collect_messages(drafts: Iterable[RawMessage | Said]) -> CollectedMessages:
    """Collect the messages that have text, each with a unique id."""
    said: list[Said] = []
    ids: dict[str, int] = {}
    length = 0
    for draft in drafts:
        text = storable_text(draft.text)
        if text is None:
            continue
        length += len(text)
        if length > LONGEST_CONVERSATION:
            return CollectedMessages(tuple(said), is_cut=True)
        id = unused = native_id(draft.id) or f"#{len(said) + 1}"
        while unused in ids:  # the same id again becomes `id.1`, `id.2` …
            ids[id] += 1
            unused = f"{id}.{ids[id]}"
        ids[unused] = 0
        said.append(Said(unused, clean(draft.role), text, draft.ts, draft.tool))
    return CollectedMessages(tuple(said))


def collect_branches(found: Iterable[RawBranch], gathered: CollectedMessages) -> tuple[Branch, ...]:
    """The branches that have text, up to a limit. A branch follows the last known message before it."""
    known = {said.id for said in gathered.said}
    branches: list[Branch] = []
    left = LONGEST_BRANCHES
    for one in found:
        said = collect_messages(one.messages).said
        left -= sum(len(message.text) for message in said)
        if left < 0 or len(branches) == MOST_BRANCHES:
            break
        if said:
            branches.append(Branch(one.after if one.after in known else None, said))
            known |= {message.id for message in said}
    return tuple(branches)


@dataclass(frozen=True, slots=True)
class RawConversation:
    """A conversation as it is in a file: id, title and parent may have any type."""

    id: Any
    messages: Iterable[RawMessage | Said] | CollectedMessages
    title: Any = None
    created_at: datetime | None = None
    """Missing times are taken from the messages."""
    updated_at: datetime | None = None
    folder: str | None = None
    """The working directory of the session. The import looks up its project."""
    parent: Any = None
    """The id of the session that started this one."""
    branches: Iterable[RawBranch] = ()

    def build(self, item: str, origin: str) -> Iterator[Conversation | Skipped]:
        """Yield the conversation, or the reason why there is none."""
        collected = self.messages
        gathered = collected if isinstance(collected, CollectedMessages) else collect_messages(collected)
        native = native_id(self.id)
        if native is None:
            yield Skipped(item, "a conversation without an id")
            return
        if not gathered.said:
            yield Skipped(item, "nothing was said in it")
            return
        times = [said.ts for said in gathered.said if said.ts]
        called = single_line(self.title) if isinstance(self.title, str) else ""
        yield Conversation(
            id=f"{origin}:{native}",
            origin=origin,
            title=called or next((single_line(said.text)[:100] for said in gathered.said if said.role == "user"), ""),
            created_at=self.created_at or min(times, default=None),
            updated_at=self.updated_at or max(times, default=None),
            messages=gathered.said,
            is_titled=bool(called),
            project=self.folder,
            parent=f"{origin}:{above}" if (above := native_id(self.parent)) else None,
            branches=collect_branches(self.branches, gathered),
        )
        if gathered.is_cut:
            yield Skipped(item, "the end of a conversation of more than 100 million characters")


def single_line(text: str) -> str:
    return truncate(" ".join(clean(text[: 4 * LONGEST_TITLE]).split()), LONGEST_TITLE)


def tool_call_or_none(tool: Any, arguments: Any, kept: ToolOutput = "full") -> str | None:
    """The text of a tool call; None if its arguments are nested too deeply."""
    try:
        return tool_call(tool, arguments, kept)
    except Unreadable:
        return None


def storable_conversation(one: Conversation) -> Conversation:
    """A conversation from an importer of another package, without anything that cannot be stored."""

    def aware(ts: datetime | None) -> datetime | None:
        return ts.replace(tzinfo=UTC) if isinstance(ts, datetime) and ts.tzinfo is None else ts

    messages = (RawMessage(said.id, clean(said.role), said.text, aware(said.ts), said.tool) for said in one.messages)
    return Conversation(
        id=printable(one.id),
        origin=printable(one.origin),
        title=printable(one.title),
        created_at=aware(one.created_at),
        updated_at=aware(one.updated_at),
        messages=collect_messages(messages).said,
        is_titled=one.is_titled,
        parent=printable(one.parent) if one.parent else None,
    )


def native_id(value: Any) -> str | None:
    """An id from a file as text. An id that is too long is always shortened in the same way."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        value = str(value)
    if not isinstance(value, str) or not (id := clean(value).strip()):
        return None
    if len(id) > LONGEST_ID:
        id = f"{id[:100]}~{hashlib.blake2b(id.encode(), digest_size=16).hexdigest()}"
    return id


def parse_any_time(value: object) -> datetime | None:
    """A time from ISO 8601, or from seconds since 1970 (or milli-, micro-, nanoseconds) as a number or text."""
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            return parse_time(value)
        value = float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        seconds = float(value)
        for _ in range(3):
            seconds = seconds / 1000 if abs(seconds) > 1e11 else seconds
        return EPOCH + timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return None


# Problems


EXPECTED = (Unreadable, OSError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError, MemoryError)
"""Errors that a damaged file causes. Any other is a fault of the importer."""


def describe_problem(problem: Exception) -> str:
    match problem:
        case Unreadable():
            return str(problem)
        case FileNotFoundError():
            return "there is nothing at this path"
        case PermissionError():
            return "it may not be read (permission denied)"
        case zipfile.BadZipFile() | zlib.error() | EOFError():
            return "a zip that is damaged or not complete"
        case NotImplementedError():
            return "packed in a way that is not known here; unpack it and import the folder"
        case MemoryError():
            return "too large for the memory there is"
        case RecursionError():
            return "nested too deeply"
        case OSError():
            return f"it cannot be read ({problem.strerror or type(problem).__name__})"
    return f"it cannot be read ({printable(f'{type(problem).__name__}: {problem}')})"


def printable(name: str) -> str:
    """A name from a file, without control characters and at most 1,000 characters long."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in clean(name[:1000]))
