"""The shapes of sources: documents with texts, conversations, and conversations that programs copy.

A source defines how its documents are named (`uri`, `id`), how a place in one is given (`loc`), which filters it has,
and what a result shows. Finding, ranking and cutting are the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from urllib.parse import quote

from palaver.model.library import COPYING, is_unique
from palaver.model.requests import TextId
from palaver.model.search import FoundPassage, Loc, ResultItem
from palaver.search.sources.filters import SourceFilters
from palaver.store.search.found_passages import Candidate

CUT_FIELDS = ("content", "transcript")
"""Fields that are cut into passages. Other fields are one passage each."""
FAR = 200
"""A match farther than this from the beginning of a message or a field has its offset in a short URI."""
RECORDED = (COPYING, "codex:", "copilot:", "gemini:", "opencode:")
"""Prefixes of the ids of imported conversations that `palaver watch` can also record as sessions."""
OF_CHATGPT = ("chatgpt:", "canonical-db:")
"""Prefixes of ChatGPT conversations. An export and a canonical database can hold the same one, with the same ids."""
_PLACE = re.compile(r"(?P<name>[a-z_]*)\.?(?P<number>\d{1,15})?(?:\.(?P<offset>\d{1,15}))?")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source of documents with texts."""

    is_conversation: ClassVar[bool] = False
    """Each message is a result; elsewhere the document is."""

    name: str
    filters: type[SourceFilters]
    search_help: str
    """The description of the tool `<source>.search`."""
    get_help: str
    """The description of the tool `<source>.get`."""
    id_field: str
    """The argument of `<source>.get` that takes the id."""
    id_help: str
    id_type: Any = TextId
    fields: tuple[str, ...] = CUT_FIELDS
    """The fields that have texts, in the order in which they are shown."""
    has_numbers: bool = False
    """The ids are numbers."""
    loc_key: str = ""
    """The key of the id in a `loc`, for items that may come with chunks."""
    labels: str = "keywords"
    """The fact that results show as tags."""
    shown_facts: tuple[str, ...] = ()
    """Facts that results show under their names."""

    def id_of(self, document: str, native_id: str, position: int) -> str | int:
        """The id that opens it, together with the name of the source."""
        return int(document) if self.has_numbers else document

    def uri_of(self, document: str, native_id: str, position: int) -> str:
        return f"{self.name}://{quote(str(self.id_of(document, native_id, position)), safe='/:@')}"

    def key_of(self, hit: Candidate) -> Hashable:
        """Hits with the same key are one result, also across sources."""
        return -hit.document_id

    def conversation_of(self, hit: Candidate) -> Hashable:
        """Results with the same one are parts of one conversation, or of copies of it."""
        return hit.document_id

    def loc(self, at: FoundPassage, offset: int) -> Loc:
        """The place of a match; `offset` is its place in the passage."""
        if self.fields != CUT_FIELDS:
            return {"field": at.field if at.position else "name", "approx_offset": at.marks.get("at", 0) + offset}
        found: Loc = {self.loc_key: int(at.document)} if self.loc_key else {}
        if at.field not in CUT_FIELDS:
            return found | {"field": at.field, "chunk_index": 0, "approx_offset": offset}
        found |= {"chunk_index": at.position - 1} if at.field == "content" else {"field": at.field}
        if "at" in at.marks:
            found["approx_offset"] = at.marks["at"] + offset
        else:  # a chunk that came with the item; its place in the text is unknown
            found["chunk_offset"] = offset
        has_chunk_id = self.loc_key and at.position and at.field == "content"
        return found | ({"chunk_uuid": at.native_id} if has_chunk_id else {})

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

    def sender_of(self, at: FoundPassage) -> str | None:
        """The name of the sender."""
        return at.author or at.role

    def result(self, at: FoundPassage, *, score: float, snippet: str | None, loc: Loc | None, link: str) -> ResultItem:
        tags = at.facts.get(self.labels)
        shown: dict[str, Any] = {name: at.facts.get(name) for name in self.shown_facts}
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
            tags=list(tags) if isinstance(tags, list) else None,
            loc=loc,
            link=link,
            **shown,
        )


@dataclass(frozen=True, kw_only=True)
class ConversationSource(Source):
    """A source of conversations. A hit on the title is the conversation itself."""

    is_conversation = True

    has_message_ids: bool = True
    """The id of a message opens it, without the id of its conversation."""
    conversation_key: str = "conversation_id"
    index_key: str = "message_index"
    first_index: int = 0

    def id_of(self, document: str, native_id: str, position: int) -> str | int:
        if position == 0:
            return document
        return native_id if self.has_message_ids else f"{document}/{native_id}"

    def uri_of(self, document: str, native_id: str, position: int) -> str:
        whole = f"{self.name}://{quote(document, safe='/:@')}"
        return whole if position == 0 else f"{whole}/{quote(native_id, safe='')}"

    def key_of(self, hit: Candidate) -> Hashable:
        return -hit.document_id if hit.position == 0 else hit.passage_id

    def loc(self, at: FoundPassage, offset: int) -> Loc:
        if at.position == 0:
            return {self.conversation_key: at.document, "field": "title", "approx_offset": offset}
        index = at.position - 1 + self.first_index
        place = {self.conversation_key: at.document, "message_id": at.native_id, self.index_key: index}
        return {**place, "approx_offset": offset}

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

    def sender_of(self, at: FoundPassage) -> str | None:
        # The author of an agent's message is the agent's id.
        return at.marks.get("author_name") or super().sender_of(at)

    def result(self, at: FoundPassage, *, score: float, snippet: str | None, loc: Loc | None, link: str) -> ResultItem:
        item = super().result(at, score=score, snippet=snippet, loc=loc, link=link)
        item = replace(item, conversation_id=at.document)
        if at.position == 0:
            return item
        when, who = at.created_at, self.sender_of(at)
        return replace(item, message_id=at.native_id, sender=who, created_at=when, last_modified=when)


class SessionsSource(ConversationSource):
    """Sessions. A fork copies the turns of a session, with their ids."""

    def key_of(self, hit: Candidate) -> Hashable:
        return hit.native_id if hit.position and is_unique(hit.native_id) else super().key_of(hit)

    def conversation_of(self, hit: Candidate) -> Hashable:
        session_id = hit.document.partition("/")[2]
        return session_id if is_unique(session_id) else super().conversation_of(hit)

    def short_id(self, item: ResultItem) -> str:
        """The session alone, if no other session has this id."""
        session_id = str(item.conversation_id).partition("/")[2]
        return session_id if is_unique(session_id) else super().short_id(item)

    def loc(self, at: FoundPassage, offset: int) -> Loc:
        return {**super().loc(at, offset), "agent_id": at.agent_id, "session_id": at.facts.get("session_id")}

    def sender_of(self, at: FoundPassage) -> str | None:
        return at.role


class Archive(ConversationSource):
    """Imported conversations. They can be imported twice, and be recorded as sessions too."""

    def key_of(self, hit: Candidate) -> Hashable:
        if hit.document.startswith(OF_CHATGPT):
            own_id = hit.native_id if hit.position else hit.document.partition(":")[2]
            return own_id if is_unique(own_id) else super().key_of(hit)
        if not hit.position or not hit.document.startswith(RECORDED):
            return super().key_of(hit)
        if is_unique(hit.native_id):
            return hit.native_id
        is_copied = hit.created_at and hit.document.startswith(COPYING)
        return (hit.native_id, hit.created_at) if is_copied else super().key_of(hit)

    def conversation_of(self, hit: Candidate) -> Hashable:
        own_id = hit.document.partition(":")[2]
        return own_id if is_unique(own_id) else super().conversation_of(hit)
