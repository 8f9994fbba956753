"""Media: videos, podcasts, books, articles, with their chunks and transcripts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, ConfigDict, Field

from palaver.model.library import Media, Segment
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Ask, Line, storable
from palaver.operations.library.items import (
    WRITING,
    Content,
    Created,
    Edited,
    Keywords,
    Listing,
    current,
    given,
    uri_of,
)
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.sources import shelving
from palaver.store.engines.database import Change, Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem
from palaver.store.search import found_passages

Address = Annotated[str, Field(max_length=4000), AfterValidator(storable)]


@dataclass(frozen=True, slots=True)
class TimedText:
    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    chunk_index: int
    chunk_uuid: str
    text: str


@dataclass(frozen=True, slots=True)
class Spoken:
    segments: list[TimedText]


@dataclass(frozen=True, slots=True)
class MediaCard:
    """A medium as listed: without its text."""

    id: int
    title: str
    media_type: str
    url: str | None
    keywords: list[str]
    created_at: datetime
    last_modified: datetime
    version: int
    uri: str


@dataclass(frozen=True, slots=True)
class KeptMedia(MediaCard):
    content: str
    chunks: list[Chunk]
    transcript: Spoken | None


class Given(Ask):
    """A piece as programs that cut or listen write it: with more fields than are kept here."""

    model_config = ConfigDict(extra="ignore")


class GivenChunk(Given):
    text: Content
    """The text of the chunk."""


class GivenSegment(Given):
    start: Annotated[float, Field(ge=0, le=10_000_000, allow_inf_nan=False)]
    """Where it begins, in seconds."""
    end: Annotated[float, Field(ge=0, le=10_000_000, allow_inf_nan=False)]
    """Where it ends, in seconds."""
    text: Content
    """What is said."""


class GivenTranscript(Given):
    segments: Annotated[list[GivenSegment], Field(max_length=200_000)]
    """What is said when."""

    def as_segments(self) -> tuple[Segment, ...]:
        return tuple(Segment(s.start, max(s.start, s.end), s.text) for s in self.segments)


class CreateMedia(Created):
    title: Line
    """What it is called."""
    media_type: Annotated[Line, Field(min_length=1, max_length=100)]
    """video, audio, podcast, pdf, epub, docx, pptx, html, markdown, txt, image, article, or any other word."""
    content: Content = ""
    """Its text."""
    url: Address | None = None
    """Where it comes from."""
    chunks: Annotated[list[GivenChunk], Field(max_length=100_000)] | None = None
    """The text cut into pieces, if you have cut it: they are kept as they are."""
    transcript: GivenTranscript | None = None
    """What is said when: {segments: [{start, end, text}]}, in seconds."""
    keywords: Keywords = Field(default=[])
    """Words to find it by."""


class OneMedia(Ask):
    media_id: AnyId
    """Id of the medium."""


class UpdateMedia(Edited):
    media_id: AnyId
    """Id of the medium."""
    title: Line | None = None
    """A new title."""
    media_type: Annotated[Line, Field(min_length=1, max_length=100)] | None = None
    """Another type."""
    content: Content | None = None
    """New text, in place of the old: chunks that were given with the old text go with it."""
    url: Address | None = None
    """Another address."""
    chunks: Annotated[list[GivenChunk], Field(max_length=100_000)] | None = None
    """New chunks, kept as they are."""
    transcript: GivenTranscript | None = None
    """A new transcript."""
    keywords: Keywords | None = None
    """New keywords, in place of the old."""


def _media_facts(kept: LibraryItem) -> dict[str, Any]:
    return {
        "id": int(kept.id),
        "title": kept.title or "",
        "media_type": kept.facts.get("media_type", ""),
        "url": kept.facts.get("url"),
        "keywords": kept.facts.get("keywords", []),
        "created_at": kept.created_at,
        "last_modified": kept.last_modified,
        "version": kept.version,
        "uri": uri_of(kept),
    }


def segments_of(bodies: dict[str, str]) -> tuple[Segment, ...]:
    return tuple(Segment(*one) for one in orjson.loads(bodies.get("segments", "[]")))


def shown_media(read: Reader, kept: LibraryItem) -> KeptMedia:
    bodies = items.bodies(read, kept.document_id)
    rows = [row for row in found_passages.passages(read, kept.document_id, 1) if row.field == "content"]
    spoken = [TimedText(s.start, s.end, s.text) for s in segments_of(bodies)]
    return KeptMedia(
        **_media_facts(kept),
        content=bodies.get("content", ""),
        chunks=[Chunk(row.position - 1, row.native_id, row.text) for row in rows],
        transcript=Spoken(spoken) if spoken else None,
    )


@operation(Tool("media.create", toolset=WRITING), Route("POST", "/api/media", status=201))
def create_media(change: Change, caller: Caller, ask: CreateMedia) -> KeptMedia:
    """Keep a video, a podcast, a book, an article: its text, its chunks if you have cut it, its transcript."""
    piece = Media(
        title=ask.title,
        media_type=ask.media_type,
        content=ask.content,
        url=ask.url,
        chunks=tuple(chunk.text for chunk in ask.chunks or ()),
        segments=ask.transcript.as_segments() if ask.transcript else (),
        keywords=tuple(ask.keywords),
    )
    return shown_media(change, items.add(change, "media", shelving.media(piece), ask.at))


@operation(Route("GET", "/api/media/{media_id}"), Command("media show", takes=("media_id",), text="content"))
def read_media(read: Reader, caller: Caller, ask: OneMedia) -> KeptMedia:
    """One medium, with its text, its chunks and its transcript."""
    return shown_media(read, current(read, "media", ask.media_id))


@operation(Tool("media.update", toolset=WRITING), Route("PUT", "/api/media/{media_id}"))
def update_media(change: Change, caller: Caller, ask: UpdateMedia) -> KeptMedia:
    """Change a medium: what you leave out stays as it is."""
    kept = current(change, "media", ask.media_id, ask.version)
    bodies = items.bodies(change, kept.document_id)
    is_new_text = ask.content is not None and ask.content != bodies["content"]
    chunks = () if is_new_text else tuple(orjson.loads(bodies.get("chunks", "[]")))
    old = Media(
        title=kept.title or "",
        media_type=kept.facts["media_type"],
        content=bodies["content"],
        url=kept.facts.get("url"),
        chunks=tuple(chunk.text for chunk in ask.chunks) if ask.chunks is not None else chunks,
        segments=ask.transcript.as_segments() if ask.transcript else segments_of(bodies),
        keywords=tuple(kept.facts.get("keywords", ())),
    )
    piece = replace(old, **given(ask, ("title", "media_type", "content", "url", "keywords")))
    return shown_media(change, items.update(change, kept, shelving.media(piece)))


@operation(
    Route("GET", "/api/media"),
    Command("media list", columns=("id", "media_type", "title", "last_modified")),
)
def list_media(read: Reader, caller: Caller, ask: Listing) -> list[MediaCard]:
    """Media, those changed last first, without their texts."""
    return [MediaCard(**_media_facts(kept)) for kept in items.page(read, "media", ask.limit, ask.offset)]
