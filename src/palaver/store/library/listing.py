"""The listing of the library: documents of one source, filtered and sorted, a page at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import orjson

from palaver.model.projects import is_called
from palaver.model.times import instant, maybe_instant
from palaver.store.engines.database import Reader, Row
from palaver.store.library.documents import substring_form
from palaver.store.library.items import NUMBERED

Sort = Literal["changed", "created", "title"]

SHOWN = 300
"""Characters of a text that a card shows."""
MOST_CHOICES = 200
"""Values to filter by, for each filter."""
ALL = 2**31
WITH_MESSAGES = frozenset({"chats", "sessions", "archive"})
FIRST_TEXTS = {
    "notes": ("content",),
    "prompts": ("details", "user_prompt", "system_prompt"),
    "characters": ("description", "personality"),
}
"""The texts whose start a card shows: the first one that is not empty."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which documents are listed. Empty filters match everything."""

    source: str
    agent_id: str | None = None
    """Only sessions of this agent."""
    text: str = ""
    tag: str = ""
    origin: str = ""
    project: str = ""
    sort: Sort = "changed"
    deleted: bool = False

    @property
    def is_filtered(self) -> bool:
        return bool(self.text or self.tag or self.origin or self.project)


@dataclass(frozen=True, slots=True)
class Card:
    """What a list shows of a document."""

    id: str | int
    title: str
    text: str
    """The start of its text, or its address."""
    tags: list[str]
    origin: str
    """The program of an imported chat, the agent of a session, the type of a media item, the folder of a file."""
    project: str | None
    messages: int | None
    author: str | None
    agent_id: str | None
    session_id: str | None
    created_at: datetime | None
    changed_at: datetime | None
    deleted_at: datetime | None


@dataclass(frozen=True, slots=True)
class Choice:
    """A value to filter by, and the number of documents that have it."""

    value: str
    documents: int


@dataclass(frozen=True, slots=True)
class Choices:
    tags: list[Choice]
    origins: list[Choice]
    projects: list[Choice]


@dataclass(frozen=True, slots=True)
class _Document:
    row: Row
    facts: dict[str, Any]
    origin: str

    @property
    def tags(self) -> list[str]:
        return self.facts.get("keywords") or self.facts.get("tags") or []

    @property
    def project(self) -> str:
        return self.facts.get("project") or ""


def page(read: Reader, wanted: Wanted, limit: int, offset: int) -> tuple[list[Card], int]:
    """A page of the wanted documents, and the number of all of them."""
    files = _files(read, wanted.source)
    if wanted.is_filtered or wanted.sort != "changed" or wanted.deleted:
        found = _sorted(_matching(_documents(wanted.source, _rows(read, wanted), files), wanted), wanted)
        return [_card(read, wanted.source, one) for one in found[offset : offset + limit]], len(found)
    rows = _rows(read, wanted, limit, offset)
    total = read.must("count_listed", source=wanted.source, agent_id=wanted.agent_id, deleted=0)["documents"]
    return [_card(read, wanted.source, one) for one in _documents(wanted.source, rows, files)], int(total)


def choices(read: Reader, wanted: Wanted) -> Choices:
    """The tags, origins and projects of all documents of the source, the most common first."""
    tags: Counter[str] = Counter()
    origins: Counter[str] = Counter()
    projects: Counter[str] = Counter()
    for one in _documents(wanted.source, _rows(read, wanted), _files(read, wanted.source)):
        tags.update(one.tags)
        origins[one.origin] += 1
        projects[one.project] += 1
    return Choices(_most_common(tags), _most_common(origins), _most_common(projects))


def _most_common(counted: Counter[str]) -> list[Choice]:
    ordered = sorted((-number, value) for value, number in counted.items() if value)
    return [Choice(value, -number) for number, value in ordered[:MOST_CHOICES]]


def _rows(read: Reader, wanted: Wanted, limit: int = ALL, offset: int = 0) -> list[Row]:
    return read.all(
        "listed_documents",
        source=wanted.source,
        agent_id=wanted.agent_id,
        deleted=int(wanted.deleted),
        limit=limit,
        offset=offset,
    )


def _files(read: Reader, source: str) -> dict[int, str]:
    """The file that each document was imported from, by the id of the document."""
    if source not in FIRST_TEXTS:
        return {}
    return {row["document_id"]: row["origin"] for row in read.all("files_of_source", source=source)}


def _documents(source: str, rows: Iterable[Row], files: dict[int, str]) -> list[_Document]:
    found = []
    for row in rows:
        facts = orjson.loads(row["data"])
        found.append(_Document(row, facts, _origin(source, row, facts, files)))
    return found


def _origin(source: str, row: Row, facts: dict[str, Any], files: dict[int, str]) -> str:
    match source:
        case "sessions":
            return row["agent"] or row["agent_id"] or ""
        case "archive":
            return facts.get("origin") or ""
        case "media":
            return facts.get("media_type") or ""
        case _:
            return _folder(files.get(row["id"], ""))


def _folder(file: str) -> str:
    """The first folder in the name of a file, such as vault in `markdown:vault/recipes/bread.md`."""
    folder, slash, _ = file.partition(":")[2].partition("/")
    return folder if slash else ""


def _matching(found: list[_Document], wanted: Wanted) -> list[_Document]:
    words = substring_form(wanted.text).split()
    tag = substring_form(wanted.tag)

    def is_wanted(one: _Document) -> bool:
        if wanted.origin and one.origin != wanted.origin:
            return False
        if wanted.project and not (one.project and is_called(one.project, wanted.project)):
            return False
        if tag and tag not in map(substring_form, one.tags):
            return False
        text = substring_form(" ".join([one.row["title"] or "", *one.tags])) if words else ""
        return all(word in text for word in words)

    return [one for one in found if is_wanted(one)] if wanted.is_filtered else found


def _sorted(found: list[_Document], wanted: Wanted) -> Sequence[_Document]:
    """In the wanted order. Rows come with the last change first."""
    if wanted.sort == "title":
        return sorted(found, key=lambda one: substring_form(one.row["title"] or ""))
    if wanted.sort == "created":
        return sorted(found, key=lambda one: -one.row["created_at"])
    if wanted.deleted:
        return sorted(found, key=lambda one: -one.row["deleted_at"])
    return found


def _card(read: Reader, source: str, one: _Document) -> Card:
    row, facts = one.row, one.facts
    native_id = row["native_id"]
    bounds = read.must("passage_bounds", document_id=row["id"]) if source in WITH_MESSAGES else None
    is_session = source == "sessions"
    return Card(
        id=int(native_id) if source in NUMBERED else native_id,
        title=row["title"] or "",
        text=facts.get("url") or "" if source == "media" else _start(read, source, row["id"]),
        tags=one.tags,
        origin=one.origin,
        project=one.project or None,
        messages=bounds["count"] if bounds else None,
        author=facts.get("author") or facts.get("creator"),
        agent_id=row["agent_id"] if is_session else None,
        session_id=facts.get("session_id") if is_session else None,
        created_at=instant(row["created_at"]) if row["created_at"] else None,
        changed_at=instant(row["modified_at"]) if row["modified_at"] else None,
        deleted_at=maybe_instant(row["deleted_at"]),
    )


def _start(read: Reader, source: str, document_id: int) -> str:
    names = FIRST_TEXTS.get(source, ())
    if not names:
        return ""
    starts = {row["field"]: row["text"] for row in read.all("body_starts", document_id=document_id, length=SHOWN)}
    return next((starts[name] for name in names if starts.get(name, "").strip()), "")
