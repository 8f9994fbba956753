"""The three shapes of sources: conversations, texts, and sets of fields.

A source defines how its documents are named (`uri`, `id`), how a place in one is given (`loc`), which filters it has,
and what a result shows. Finding, ranking and cutting are the same for all.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Protocol
from urllib.parse import quote, unquote

from palaver.model.people import Caller
from palaver.model.requests import Request, TextId
from palaver.model.search import FoundPassage, Loc, ResultItem
from palaver.store.engines.database import Reader, Scope

CUT_FIELDS = ("content", "transcript")
"""Fields that are cut into passages. Other fields are one passage each."""


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


def parse_uri(uri: str) -> tuple[str, str] | None:
    """The source and the id in a URI; None if it is not one."""
    name, separator, rest = uri.partition("://")
    id = unquote(rest)
    return (name, id) if separator and id and "\x00" not in id else None
