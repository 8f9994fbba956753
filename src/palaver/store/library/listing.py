"""The listing of the library: documents of one source, filtered and sorted, a page at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

import orjson

from palaver.model.projects import is_called
from palaver.model.times import instant, maybe_instant
from palaver.store.engines.database import Lookup, Reader, Row, Scope
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
    groups: str | None = None
    """Only sessions of these groups (see `sharing.readable_groups`)."""
    text: str = ""
    tag: str = ""
    origin: str = ""
    project: str = ""
    sort: Sort = "changed"
    deleted: bool = False
    tokens: tuple[str, ...] = ()
    """Index tokens that each wanted document has: its tag, its type. The index has no deleted documents."""


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


@dataclass(frozen=True)
class _Document:
    """A document of a source. Its facts are parsed when they are needed: of most documents they are not."""

    row: Row
    source: str
    files: Mapping[int, str]

    @cached_property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.row["data"])
        return found

    @property
    def origin(self) -> str:
        match self.source:
            case "sessions":
                return self.row["agent"] or self.row["agent_id"] or ""
            case "archive":
                return self.facts.get("origin") or ""
            case "media":
                return self.facts.get("media_type") or ""
            case _:
                return _folder(self.files.get(self.row["id"], ""))

    @property
    def tags(self) -> list[str]:
        return self.facts.get("keywords") or self.facts.get("tags") or []

    @property
    def project(self) -> str:
        return self.facts.get("project") or ""


ORDERS: dict[str, Callable[[_Document], Any]] = {
    "title": lambda one: substring_form(one.row["title"] or ""),
    "created": lambda one: -one.row["created_at"],
    "deleted": lambda one: -one.row["deleted_at"],
}
"""The orders in which rows do not come: they come with the last change first."""


def page(read: Reader, wanted: Wanted, limit: int, offset: int) -> tuple[list[Card], int]:
    """A page of the wanted documents, and the number of all of them."""
    ids = _in_index(read, wanted)
    is_told_by_index = not (wanted.text or wanted.origin or wanted.project) and (ids is not None or not wanted.tag)
    if is_told_by_index and wanted.sort == "changed" and not wanted.deleted:
        rows, total = _rows(read, wanted, ids, limit, offset)
    else:
        rows = _rows(read, wanted, ids)[0]
        files = _files(read, wanted.source, rows) if wanted.origin else {}
        found = _matching([_Document(row, wanted.source, files) for row in rows], wanted)
        if order := ORDERS.get("deleted" if wanted.sort == "changed" and wanted.deleted else wanted.sort):
            found.sort(key=order)
        rows, total = [one.row for one in found[offset : offset + limit]], len(found)
    files = _files(read, wanted.source, rows)
    return [_card(read, wanted.source, _Document(row, wanted.source, files)) for row in rows], total


def choices(read: Reader, wanted: Wanted) -> Choices:
    """The tags, origins and projects of all documents of the source, the most common first."""
    tags: Counter[str] = Counter()
    origins: Counter[str] = Counter()
    projects: Counter[str] = Counter()
    rows = _rows(read, wanted, None)[0]
    files = _files(read, wanted.source, rows)
    for row in rows:
        one = _Document(row, wanted.source, files)
        tags.update(one.tags)
        origins[one.origin] += 1
        projects[one.project] += 1
    return Choices(_most_common(tags), _most_common(origins), _most_common(projects))


def _most_common(counted: Counter[str]) -> list[Choice]:
    ordered = sorted((-number, value) for value, number in counted.items() if value)
    return [Choice(value, -number) for number, value in ordered[:MOST_CHOICES]]


def _in_index(read: Reader, wanted: Wanted) -> list[int] | None:
    """The documents that have the wanted index tokens. None if the index does not tell."""
    if not wanted.tokens or wanted.deleted:
        return None
    passages = read.look_up(Lookup(Scope((wanted.source,), scopes=wanted.tokens), ALL)).ids
    return [id for (id,) in read.rows("documents_of_passages", ids=orjson.dumps(passages).decode())]


def _rows(
    read: Reader, wanted: Wanted, ids: list[int] | None, limit: int = ALL, offset: int = 0
) -> tuple[list[Row], int]:
    """Documents of the source, or some of them, the latest change first, and how many there are."""
    if ids is not None:
        return read.all("documents_among", ids=orjson.dumps(ids).decode(), limit=limit, offset=offset), len(ids)
    given = {"source": wanted.source, "groups": wanted.groups, "deleted": int(wanted.deleted)}
    total = read.must("count_listed", **given)["documents"]
    return read.all("listed_documents", **given, limit=limit, offset=offset), total


def _files(read: Reader, source: str, rows: Iterable[Row]) -> dict[int, str]:
    """The files that documents were imported from, by the id of the document."""
    if source not in FIRST_TEXTS:
        return {}
    found = read.all("files_of_documents", ids=orjson.dumps([row["id"] for row in rows]).decode())
    return {row["document_id"]: row["origin"] for row in found}


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
        if not words:
            return True
        title = one.row["title"] or ""
        maybe = substring_form(f"{title} {one.row['data']}")
        if "\\" not in maybe and not all(word in maybe for word in words):  # faster than parsing the facts
            return False
        text = substring_form(" ".join([title, *one.tags]))
        return all(word in text for word in words)

    return [one for one in found if is_wanted(one)]


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
