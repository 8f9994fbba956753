"""What importers are given and what they give back.

An importer, built in or from another package (entry point group `palaver.importers`), is an object with

    name                                    "chatgpt": the origin of its conversations, and how their ids begin
    recognises(item, head) -> bool          is this one of its files? `head` is how the file begins
    conversations(item) -> Iterator         what was said in it, and what was left out and why
    pieces(item) -> Iterator                or: what somebody wrote and kept (notes, media, characters, prompts)

It reads the item's stream, or the file at the item's path where there is one, and nothing else. It may raise
`Unreadable` where it cannot go on; what it gave before is kept.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from palaver.importers import LONGEST_ID, Unreadable, call, clean, cut, moment, words
from palaver.model.library import Brought, Conversation, Said
from palaver.model.times import EPOCH
from palaver.text.tool_output import ToolOutput

HEAD = 64 * 1024
LONGEST_TITLE = 500
LONGEST_CONVERSATION = 100_000_000
"""In characters. What comes after is left out, and told."""

_NUMBER = re.compile(r"\s*[+-]?\d{1,30}(?:\.\d{0,30})?(?:[eE][+-]?\d{1,3})?\s*")


@dataclass(frozen=True)
class Item:
    """A file, wherever it stands."""

    name: str
    """As it is shown: `export.zip › conversations.json`."""
    size: int
    path: Path | None
    """None inside a zip."""
    open: Callable[[], BinaryIO]
    """A fresh stream each time."""
    inside: str = ""
    """Where it stands within what was named, the same on every machine: `vault/recipes/bread.md`."""
    tool_output: ToolOutput = "full"
    """How much is wanted of what a coding agent's tools were given and gave back."""

    @property
    def file_name(self) -> str:
        return self.path.name if self.path else self.name.rpartition("/")[2].rpartition(" › ")[2]


@dataclass(frozen=True)
class Skipped:
    """Something that was left out, and why: to be told to whoever imports."""

    name: str
    why: str
    count: int = 1
    is_error: bool = False
    """A path that was named and cannot be read."""


class Importer(Protocol):
    @property
    def name(self) -> str: ...

    def recognises(self, item: Item, head: bytes) -> bool: ...

    def conversations(self, item: Item) -> Iterator[Conversation | Skipped]: ...


class LibraryImporter(Protocol):
    """One whose files hold no conversations, but what somebody wrote and kept."""

    @property
    def name(self) -> str: ...

    def recognises(self, item: Item, head: bytes) -> bool: ...

    def pieces(self, item: Item) -> Iterator[Brought | Skipped]: ...


# What importers share


class Draft(NamedTuple):
    """Something that was said, as it was found: of any shape."""

    id: Any
    role: str
    text: Any
    ts: datetime | None


@dataclass(frozen=True)
class Gathered:
    said: tuple[Said, ...]
    is_cut: bool = False


def gather(drafts: Iterable[Draft]) -> Gathered:
    """What can be stored of it: texts that say something, each under an id of its own."""
    said: list[Said] = []
    ids: dict[str, int] = {}
    length = 0
    for draft in drafts:
        text = words(draft.text)
        if text is None:
            continue
        length += len(text)
        if length > LONGEST_CONVERSATION:
            return Gathered(tuple(said), is_cut=True)
        id = _unused(native_id(draft.id) or f"#{len(said) + 1}", ids)
        said.append(Said(id, clean(draft.role), text, draft.ts))
    return Gathered(tuple(said))


def _unused(id: str, ids: dict[str, int]) -> str:
    """The same id again becomes `id.1`, `id.2` …"""
    unused = id
    while unused in ids:
        ids[id] += 1
        unused = f"{id}.{ids[id]}"
    ids[unused] = 0
    return unused


def tell(
    item: str,
    origin: str,
    id: Any,
    gathered: Gathered,
    *,
    title: Any = None,
    created_at: datetime | None = None,
    updated_at: datetime | None = None,
    folder: str | None = None,
) -> Iterator[Conversation | Skipped]:
    """A conversation, or why there is none. Where its own times are missing, those of what was said are taken.

    `folder` is where it was held. Whoever imports it looks up the project of that folder.
    """
    native = native_id(id)
    if native is None:
        yield Skipped(item, "a conversation without an id")
        return
    if not gathered.said:
        yield Skipped(item, "nothing was said in it")
        return
    times = [said.ts for said in gathered.said if said.ts]
    called = _line(title)
    yield Conversation(
        id=f"{origin}:{native}",
        origin=origin,
        title=called or next((_line(said.text)[:100] for said in gathered.said if said.role == "user"), ""),
        created_at=created_at or min(times, default=None),
        updated_at=updated_at or max(times, default=None),
        messages=gathered.said,
        is_titled=bool(called),
        project=folder,
    )
    if gathered.is_cut:
        yield Skipped(item, "the end of a conversation of more than 100 million characters")


def _line(text: Any) -> str:
    return cut(" ".join(clean(text[: 4 * LONGEST_TITLE]).split()), LONGEST_TITLE) if isinstance(text, str) else ""


def called(tool: Any, arguments: Any, kept: ToolOutput = "full") -> str | None:
    """The call of a tool, as far as it can be shown."""
    try:
        return call(tool, arguments, kept)
    except Unreadable:
        return None


def native_id(value: Any) -> str | None:
    """An id as others gave it, whatever it looks like; too long ones are shortened, always in the same way."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        value = str(value)
    if not isinstance(value, str) or not (id := clean(value).strip()):
        return None
    if len(id) > LONGEST_ID:
        id = f"{id[:100]}~{hashlib.blake2b(id.encode(), digest_size=16).hexdigest()}"
    return id


def moment_of(value: object) -> datetime | None:
    """An instant from seconds since 1970 (or milli-, micro-, nanoseconds), as a number or in text, or from ISO-8601."""
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            return moment(value)
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
