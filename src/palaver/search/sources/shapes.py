"""The three shapes of sources: conversations, texts, and sets of fields.

A source defines how its documents are named (`uri`, `id`), how a place in one is given (`loc`), which filters it has,
and what a result shows. Finding, ranking and cutting are the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Protocol
from urllib.parse import quote

from palaver.model.people import Caller
from palaver.model.requests import Request, TextId
from palaver.model.search import FoundPassage, Loc, ResultItem
from palaver.store.engines.database import Reader, Scope

CUT_FIELDS = ("content", "transcript")
"""Fields that are cut into passages. Other fields are one passage each."""
FAR = 200
"""A match farther than this from the beginning of a message or a field has its offset in a short URI."""
_PLACE = re.compile(r"(?P<name>[a-z_]*)\.?(?P<number>\d{1,15})?(?:\.(?P<offset>\d{1,15}))?")


class SourceFilters(Request):
    """The filters of one source."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        """Where to look; None if nothing can match."""
        raise NotImplementedError


class Hit(Protocol):
    """The place of a passage that was found."""

    @property
    def passage_id(self) -> int: ...
    @property
    def document_id(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def document(self) -> str: ...
    @property
    def native_id(self) -> str: ...
    @property
    def created_at(self) -> int | None: ...


class Source:
    """One kind of document."""

    name: ClassVar[str]
    filters: ClassVar[type[SourceFilters]]
    search_help: ClassVar[str]
    """The description of the tool `<source>.search`."""
    get_help: ClassVar[str]
    """The description of the tool `<source>.get`."""
    id_field: ClassVar[str]
    """The argument of `<source>.get` that takes the id."""
    id_help: ClassVar[str]
    id_type: ClassVar[Any] = TextId
    fields: ClassVar[tuple[str, ...]] = CUT_FIELDS
    """The fields that have texts, in the order in which they are shown."""
    is_conversation: ClassVar[bool] = False
    """Each message is a result; elsewhere the document is."""

    def id_of(self, document: str, native_id: str, position: int) -> str | int:
        """The id that opens it, together with the name of the source."""
        return document

    def uri_of(self, document: str, native_id: str, position: int) -> str:
        return f"{self.name}://{quote(str(self.id_of(document, native_id, position)), safe='/:@')}"

    def key_of(self, hit: Hit) -> Hashable:
        """Hits with the same key are one result, also across sources."""
        return -hit.document_id

    def loc(self, at: FoundPassage, offset: int) -> Loc:
        """The place of a match; `offset` is its place in the passage."""
        raise NotImplementedError

    def short_uri(self, item: ResultItem) -> str:
        """The URI of a result and the place of the match in it: `notes://ID#120`, `prompts://ID#details`."""
        loc = item.loc or {}
        if "chunk_offset" in loc and "chunk_index" in loc:
            return f"{item.uri}#chunk{loc['chunk_index']}.{loc['chunk_offset']}"
        offset = loc.get("approx_offset", 0)
        if "field" not in loc:
            return f"{item.uri}#{offset}"
        return f"{item.uri}#{loc['field']}{f'.{offset}' if offset > FAR else ''}"

    def loc_of(self, place: str) -> Loc | None:
        """The `loc` that the place in a short URI means; None if it is not a place."""
        found = _PLACE.fullmatch(place)
        if not place or found is None:
            return None
        name, number, offset = found["name"], int(found["number"] or 0), int(found["offset"] or 0)
        if name == "chunk":
            return {"chunk_index": number, "chunk_offset": offset}
        return {"field": name, "approx_offset": number} if name else {"approx_offset": number}

    def conversation_of(self, hit: Hit) -> Hashable:
        """Results with the same one are parts of one conversation, or of copies of it."""
        return hit.document_id

    def sender_of(self, at: FoundPassage) -> str | None:
        """The name of the sender."""
        return at.author or at.role

    def tags(self, facts: Mapping[str, Any]) -> list[str] | None:
        found = facts.get("keywords")
        return list(found) if isinstance(found, list) else None

    def result(self, at: FoundPassage, *, score: float, snippet: str | None, loc: Loc | None, link: str) -> ResultItem:
        return ResultItem(
            id=self.id_of(at.document, at.native_id, at.position),
            source=self.name,
            title=at.title,
            snippet=snippet,
            uri=self.uri_of(at.document, at.native_id, at.position),
            score=score,
            score_type="fts",
            created_at=at.document_created,
            last_modified=at.document_modified,
            version=at.version,
            tags=self.tags(at.facts),
            loc=loc,
            link=link,
            **self.particulars(at),
        )

    def particulars(self, at: FoundPassage) -> dict[str, Any]:
        """Fields that only results of this source have."""
        return {}


class Conversation(Source):
    """A source of conversations. A hit on the title is the conversation itself."""

    is_conversation = True
    has_own_message_ids: ClassVar[bool] = True
    conversation_key: ClassVar[str] = "conversation_id"
    index_key: ClassVar[str] = "message_index"
    first_index: ClassVar[int] = 0

    def id_of(self, document: str, native_id: str, position: int) -> str | int:
        if position == 0:
            return document
        return native_id if self.has_own_message_ids else f"{document}/{native_id}"

    def uri_of(self, document: str, native_id: str, position: int) -> str:
        whole = f"{self.name}://{quote(document, safe='/:@')}"
        return whole if position == 0 else f"{whole}/{quote(native_id, safe='')}"

    def key_of(self, hit: Hit) -> Hashable:
        return -hit.document_id if hit.position == 0 else hit.passage_id

    def loc(self, at: FoundPassage, offset: int) -> Loc:
        if at.position == 0:
            return {self.conversation_key: at.document, "field": "title", "approx_offset": offset}
        return {
            self.conversation_key: at.document,
            "message_id": at.native_id,
            self.index_key: at.position - 1 + self.first_index,
            "approx_offset": offset,
        }

    def short_uri(self, item: ResultItem) -> str:
        """The conversation and the number of the message: `bus://THREAD#12`. The ids of messages cost many tokens."""
        loc, offset = item.loc or {}, (item.loc or {}).get("approx_offset") or 0
        place = "title" if "field" in loc else f"{loc[self.index_key]}{f'.{offset}' if offset > FAR else ''}"
        return f"{self.uri_of(self.short_id(item), '', 0)}#{place}"

    def short_id(self, item: ResultItem) -> str:
        return str(item.conversation_id)

    def loc_of(self, place: str) -> Loc | None:
        found = _PLACE.fullmatch(place)
        if not place or found is None:
            return None
        if found["name"]:
            return {"field": found["name"]}
        loc: Loc = {self.index_key: int(found["number"] or 0)}
        return loc | ({"approx_offset": int(found["offset"])} if found["offset"] else {})

    def particulars(self, at: FoundPassage) -> dict[str, Any]:
        found: dict[str, Any] = {"conversation_id": at.document}
        if at.position:
            found |= {"message_id": at.native_id, "sender": self.sender_of(at)}
        return found

    def result(self, at: FoundPassage, *, score: float, snippet: str | None, loc: Loc | None, link: str) -> ResultItem:
        item = super().result(at, score=score, snippet=snippet, loc=loc, link=link)
        if at.position == 0:
            return item
        return replace(item, created_at=at.created_at, last_modified=at.created_at)


class Text(Source):
    """A source of texts that are cut into passages."""

    def loc(self, at: FoundPassage, offset: int) -> Loc:
        if at.field not in CUT_FIELDS:
            return {"field": at.field, "chunk_index": 0, "approx_offset": offset}
        found: Loc = {"chunk_index": at.position - 1} if at.field == "content" else {"field": at.field}
        if "at" in at.marks:
            return {**found, "approx_offset": at.marks["at"] + offset}
        return {**found, "chunk_offset": offset}  # a chunk that came with the item; its place in the text is unknown


class Fields(Source):
    """A source of documents with a few named texts."""

    title_field: ClassVar[str] = "name"

    def loc(self, at: FoundPassage, offset: int) -> Loc:
        field = self.title_field if at.position == 0 else at.field
        return {"field": field, "approx_offset": at.marks.get("at", 0) + offset}
