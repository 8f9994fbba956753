"""Reads the passages that a search found, and the passages of a document that is opened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import orjson

from palaver.model.search import FoundPassage
from palaver.model.times import instant, maybe_instant
from palaver.store.engines.database import Lookup, Reader, Row, Scope
from palaver.store.engines.id_ranges import RECORDED_SOURCES, TEXT_SOURCES, id_range_of, id_ranges_of
from palaver.store.library.documents import further_scopes, scopes_of

MOST_TITLED = 50
"""How many documents of one title are read."""
MOST_LISTED = 20_000
"""How many of the newest passages are looked at for those that are in a scope."""
LISTED_AT_ONCE = 1_000
LAST = 2**31
"""A position after all others."""


def _json(ids: Iterable[Any]) -> str:
    return orjson.dumps(list(ids)).decode()


# Passages that a search found


class Candidate(NamedTuple):
    """A passage that may be a result, with the fields that ranking needs. Its text is not read yet."""

    passage_id: int
    document_id: int
    position: int
    source: str
    document: str
    native_id: str
    created_at: int | None
    modified_at: int


def candidates(read: Reader, passage_ids: Sequence[int]) -> list[Candidate]:
    """The candidates with these passage ids, in the given order."""
    found = {row[0]: Candidate._make(row) for row in read.rows("candidates", ids=_json(passage_ids))}
    return [found[id] for id in passage_ids if id in found]


def timed_among(read: Reader, passage_ids: Iterable[int], since: int, until: int) -> set[int]:
    """Those of some passages that are from a period."""
    return {id for (id,) in read.rows("timed_among", ids=_json(passage_ids), since=since, until=until)}


class CandidateText(NamedTuple):
    """A candidate with its text."""

    at: Candidate
    title: str | None
    role: str | None
    author: str | None
    text: str


def candidate_texts(
    read: Reader, spans: Iterable[tuple[int, int, int]], without: Collection[str] = ()
) -> list[CandidateText]:
    """The passages in these spans (document, first and last position), except those with a token of `without`."""
    size = len(Candidate._fields)
    return [
        CandidateText(Candidate._make(row[:size]), *row[size:-1])
        for row in read.rows("candidate_texts", spans=_json(spans))
        if not (row[-1] and without) or set(without).isdisjoint(further_scopes("bus", orjson.loads(row[-1])))
    ]


def newest(read: Reader, scope: Scope, cap: int) -> list[int]:
    """The newest passages of a scope, whatever their words, at most `cap`. Passages without a time are left out."""
    if scope.token_groups:
        return read.look_up(Lookup(scope, cap)).ids
    is_checked = bool(scope.without) or replace(scope, authors=()).needs_facts
    given = {"since": scope.since, "until": scope.until, "sources": _json(scope.sources), "titles": int(scope.titles)}
    if scope.authors:
        given["authors"] = _json(scope.authors)

    def look_at(most: int) -> list[int]:
        name = "newest_by_authors" if scope.authors else "newest_passages"
        return [id for (id,) in read.rows(name, cap=most, **given)]

    return _newest_in_scope(read, scope, cap, look_at, MOST_LISTED) if is_checked else look_at(cap)


def newest_of_period(read: Reader, scope: Scope, most: int, looked_at: int) -> list[int]:
    """The newest passages of a scope in its period, at most `most`. Only the newest `looked_at` passages of the period
    are looked at, whatever their scope."""

    def look_at(most: int) -> list[int]:
        return [id for (id,) in read.rows("newest_between", since=scope.since, until=scope.until, cap=most)]

    return _newest_in_scope(read, scope, most, look_at, looked_at)


def _newest_in_scope(
    read: Reader, scope: Scope, most: int, look_at: Callable[[int], list[int]], looked_at: int
) -> list[int]:
    """The first passages that are in a scope, among the newest `looked_at`. `look_at` gets the newest passages."""
    while True:
        ids = look_at(looked_at)
        found: list[int] = []
        for begin in range(0, len(ids), LISTED_AT_ONCE):
            found += in_scopes(read, ids[begin : begin + LISTED_AT_ONCE], [scope])
            if len(found) >= most:
                break
        # What a blind caller may not read must not take the place of what it may read.
        if not scope.is_blind or len(found) >= most or len(ids) < looked_at:
            return found[:most]
        looked_at *= 10


def listed(read: Reader, scopes: Sequence[Scope], most: int) -> set[int] | None:
    """All passages of some scopes, and maybe some others of their sources. None if there are more than `most`."""
    found: set[int] = set()
    for scope in scopes:
        one = replace(scope, has=(), authors=(), without=(), without_authors=(), without_facts=())
        if one.token_groups:
            found.update(read.look_up(Lookup(one, most + 1)).ids)
        elif one.is_timed:
            found.update(newest(read, one, most + 1))
        else:
            rows = read.rows("passages_of_sources", sources=_json(one.sources), cap=most + 1)
            found.update(id for (id,) in rows)
        if len(found) > most:
            return None
    return found


def in_scopes(read: Reader, passage_ids: Sequence[int], scopes: Sequence[Scope]) -> list[int]:
    """Those of the passages that are in one of the scopes, in the given order."""
    inside: list[list[int]] = [[] for _ in scopes]
    groups = [one.token_groups for one in scopes]
    has_tokens = any(groups) or any(one.without for one in scopes)
    tokens: set[str] = set()
    for id, source, document_id, field, author_id, role, created_at, data in read.rows(
        "facts_of_passages", ids=_json(passage_ids)
    ):
        if has_tokens:
            own = orjson.loads(data) if data != "{}" else {}
            tokens = set(scopes_of(source, document_id, field, author_id, role, own))
        for one, wanted, ids in zip(scopes, groups, inside, strict=True):
            if (
                _includes(one, source, field, created_at)
                and all(not tokens.isdisjoint(group) for group in wanted)
                and tokens.isdisjoint(one.without)
            ):
                ids.append(id)
    found = {id for one, ids in zip(scopes, inside, strict=True) for id in read.with_facts(ids, one)}
    return [id for id in passage_ids if id in found]


def _includes(scope: Scope, source: str, field: str, created_at: int | None) -> bool:
    """Whether a scope has passages of this source, field and time."""
    is_wanted = scope.titles if field == "title" else scope.bodies
    is_timely = not scope.is_timed or (created_at is not None and scope.since <= created_at <= scope.until)
    return is_wanted and is_timely and source in scope.sources


def passage_ids_in(read: Reader, spans: Iterable[tuple[int, int, int]]) -> dict[int, dict[int, int]]:
    """The ids of the passages in these spans (document, first and last position), by document and position."""
    found: dict[int, dict[int, int]] = {}
    for document_id, position, id in read.rows("passage_ids_in", spans=_json(spans)):
        found.setdefault(document_id, {})[position] = id
    return found


class HitsToCount(NamedTuple):
    """What is necessary to count the results that some passages make."""

    by_document: Counter[int]
    """How many of the passages are in each document that is one result as a whole (see TEXT_SOURCES)."""
    message_ids: list[str]
    """The ids of messages that may be stored twice: turns of sessions, and imported messages."""


def hits_to_count(read: Reader, passage_ids: Sequence[int]) -> HitsToCount:
    rows = read.rows(
        "hits_to_count",
        ids=_json(passage_ids),
        texts=list(TEXT_SOURCES),
        recorded=list(RECORDED_SOURCES),
        first_text=id_ranges_of(TEXT_SOURCES, bodies=True, titles=True)[0][0],
        first_recorded=id_range_of(RECORDED_SOURCES[0])[0],
        last_recorded=id_range_of(RECORDED_SOURCES[-1])[1],
    )
    return HitsToCount(
        Counter(document_id for document_id, _ in rows if document_id is not None),
        [message_id for _, message_id in rows if message_id is not None],
    )


class TitledDocument(NamedTuple):
    id: int
    source: str
    title: str


def documents_with_title(read: Reader, title: str, groups: str | None = None) -> list[TitledDocument]:
    """The newest documents whose title begins like this one. The case of ASCII letters does not matter. `groups`: no
    sessions but those of these groups (see `sharing.readable_groups`)."""
    rows = read.rows("documents_with_title", title=title, groups=groups, limit=MOST_TITLED)
    return [TitledDocument._make(row) for row in rows]


def title_texts(read: Reader, passage_ids: Iterable[int]) -> dict[int, str]:
    """The texts of those passages that are titles, by passage id."""
    return dict(read.rows("title_texts", ids=_json(passage_ids)))


def by_ids(read: Reader, passage_ids: Iterable[int]) -> dict[int, FoundPassage]:
    """The passages with these ids, each with its document."""
    rows = read.all("passages_with_documents", ids=_json(passage_ids))
    return {row["passage_id"]: _found_passage(row) for row in rows}


def by_id(read: Reader, passage_id: int) -> FoundPassage | None:
    return by_ids(read, [passage_id]).get(passage_id)


def document(read: Reader, document_id: int) -> FoundPassage:
    """A document without a passage; its title takes the place of the passage."""
    return _found_passage(read.must("document_without_passage", document_id=document_id))


def _found_passage(row: Row) -> FoundPassage:
    read = {
        "document_created": instant(row["document_created"]),
        "document_modified": instant(row["document_modified"]),
        "facts": orjson.loads(row["facts"]),
        "created_at": maybe_instant(row["created_at"]),
        "marks": orjson.loads(row["marks"]),
    }
    return FoundPassage(**row | read)


def by_ids_in_order(read: Reader, passage_ids: Sequence[int]) -> list[FoundPassage]:
    """The passages with these ids, in the given order."""
    found = by_ids(read, passage_ids)
    return [found[id] for id in passage_ids if id in found]


def author_names(read: Reader, limit: int) -> list[str]:
    """The names of authors in small letters, each once, at most `limit`."""
    return [name for (name,) in read.rows("author_names", limit=limit)]


def projects(read: Reader, sources: Iterable[str]) -> list[str]:
    """The projects of some sources, each once."""
    known = {row["project"] for source in sources for row in read.all("projects", source=source) if row["project"]}
    return sorted(known)


class FirstPassage(NamedTuple):
    document_id: int
    text: str
    data: dict[str, Any]
    author: str | None
    field: str


def first_passages(read: Reader, document_ids: Iterable[int]) -> dict[int, FirstPassage]:
    """The first passage of each document, by document id."""
    rows = read.all("first_passages", ids=_json(document_ids))
    return {row["document_id"]: FirstPassage(**{**row, "data": orjson.loads(row["data"])}) for row in rows}


# Passages of a document that is opened


@dataclass(frozen=True, slots=True)
class ResolvedId:
    """The document that an id names, and the passage, if the id names one."""

    document_id: int
    passage_id: int | None


def document_id_of(read: Reader, source: str, native_id: str) -> int | None:
    row = read.one("document_by_native", source=source, native_id=native_id)
    return row["id"] if row else None


def resolve(read: Reader, source: str, id: str) -> ResolvedId | None:
    """Find an id: of a document, of a message, or of a passage in a document, written `document/passage`."""
    document_id = document_id_of(read, source, id)
    if document_id is not None:
        return ResolvedId(document_id, None)
    if source in ("bus", "chats") and (found := read.one("passage_of_source", source=source, native_id=id)):
        return ResolvedId(found["document_id"], found["id"])
    for at, char in enumerate(id):  # both ids may contain slashes
        document_id = document_id_of(read, source, id[:at]) if char == "/" else None
        passage = passage_by_id(read, document_id, id[at + 1 :]) if document_id is not None else None
        if document_id is not None and passage:
            return ResolvedId(document_id, passage.id)
    return None


def sessions_with_id(read: Reader, session_id: str) -> list[ResolvedId]:
    """The sessions of all agents that have this id, the oldest first."""
    return [ResolvedId(id, None) for (id,) in read.rows("sessions_with_id", session_id=session_id)]


class PassagePlace(NamedTuple):
    id: int
    position: int


def passage_by_id(read: Reader, document_id: int, native_id: str) -> PassagePlace | None:
    """Where the passage with this id is in its document."""
    row = read.one("passage_by_native", document_id=document_id, native_id=native_id)
    return PassagePlace(row["id"], row["position"]) if row else None


class PassageRow(NamedTuple):
    """A passage as stored. The title of a document has position 0."""

    id: int
    position: int
    native_id: str
    field: str
    role: str | None
    author: str | None
    author_id: str | None
    text: str
    created_at: int | None
    json: str

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.json)
        return found


def passages(read: Reader, document_id: int, first: int = 0, last: int = LAST) -> list[PassageRow]:
    """The passages of a document between two positions."""
    rows = read.rows("whole_passages", document_id=document_id, first=first, last=last)
    return [PassageRow._make(row) for row in rows]


def passages_after(read: Reader, document_id: int, after: int, limit: int) -> list[PassageRow]:
    """The next passages of a document after a position."""
    rows = read.rows("passages_after", document_id=document_id, after=after, limit=limit)
    return [PassageRow._make(row) for row in rows]


def passage_page(read: Reader, document_id: int, limit: int, offset: int) -> list[PassageRow]:
    """A page of the passages of a document, without its title."""
    rows = read.rows("passage_page", document_id=document_id, limit=limit, offset=offset)
    return [PassageRow._make(row) for row in rows]


@dataclass(frozen=True, slots=True)
class PassageBounds:
    first: int
    last: int
    count: int


def passage_bounds(read: Reader, document_id: int) -> PassageBounds:
    """The first and last position in a document, and the number of passages, without its title."""
    row = read.must("passage_bounds", document_id=document_id)
    return PassageBounds(row["first"], row["last"], row["count"])
