"""Media: videos, podcasts, books, articles, with a text and perhaps chunks and a transcript."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from palaver.model.library import Draft, ItemDraft, Media, Segment
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Date, Names
from palaver.model.search import FoundPassage, Loc, Order
from palaver.model.times import between_dates
from palaver.search.sources import tokens
from palaver.search.sources.indexing import chunk_id, cut, labels, letters_only, to_json
from palaver.search.sources.shapes import SourceFilters, Text
from palaver.store.engines.database import Reader, Scope


class MediaFilters(SourceFilters):
    media_types: Names | None = None
    """Only these types: video, podcast, pdf, article …"""
    date_from: Date | None = None
    """Earliest time it was made (ISO 8601)."""
    date_to: Date | None = None
    """Latest time; a date means the end of that day."""
    order_by: Order | None = None
    """relevance or recent."""

    def scope(self, read: Reader, caller: Caller) -> Scope | None:
        types = tuple(tokens.media_type(name) for name in self.media_types or ())
        since, until = between_dates(self.date_from, self.date_to)
        return Scope(("media",), any_of=(types,) if types else (), since=since, until=until)


class MediaSource(Text):
    name = "media"
    filters = MediaFilters
    search_help = "Search the texts of videos, podcasts, books and articles, best match first."
    get_help = (
        "Open a media item (video, podcast, book, article): a snippet, a chunk with its neighbours, or all of it."
    )
    id_field, id_help, id_type = "media_id", "Id of the media item.", AnyId

    def id_of(self, document: str, native_id: str, position: int) -> str | int:
        return int(document)

    def loc(self, at: FoundPassage, offset: int) -> Loc:
        found = {"media_id": int(at.document), **super().loc(at, offset)}
        return found | ({"chunk_uuid": at.native_id} if at.position and at.field == "content" else {})

    def particulars(self, at: FoundPassage) -> dict[str, Any]:
        return {"media_type": at.facts.get("media_type"), "url": at.facts.get("url")}


def index_media(media: Media) -> ItemDraft:
    own = (tokens.media_type(media.media_type), *(tokens.keyword(keyword) for keyword in media.keywords))
    transcript = transcript_of(media.segments)
    bodies = {"content": media.content}
    if media.segments:
        bodies |= {"transcript": transcript, "segments": to_json([[s.start, s.end, s.text] for s in media.segments])}
    if media.chunks:
        bodies["chunks"] = to_json(list(media.chunks))
        content = [Draft(text=chunk, native_id=chunk_id(media, n), scopes=own) for n, chunk in enumerate(media.chunks)]
    else:
        content = [*cut(media.content, "content", own, media)]
    if transcript and letters_only(transcript) not in letters_only(media.content):
        content += cut(transcript, "transcript", own)
    return ItemDraft(
        title=media.title,
        facts={"media_type": media.media_type, "url": media.url, "keywords": list(media.keywords)},
        bodies=bodies,
        passages=(*content, *labels("keywords", media.keywords, own)),
        title_scopes=own,
    )


def transcript_of(segments: Iterable[Segment]) -> str:
    """The text of a recording."""
    return "\n".join(segment.text for segment in segments)
