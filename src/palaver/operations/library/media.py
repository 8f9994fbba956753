"""Media (videos, podcasts, books, articles): create, read, update, list."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator, ConfigDict, Field

from palaver.model.library import ItemDraft, Media, Segment
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Line, Request, storable
from palaver.operations.library.items import (
    WRITING,
    Content,
    Created,
    Keywords,
    Listing,
    VersionedEdit,
    add_item,
    current,
    given,
    update_item,
    uri_of,
)
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.sources.media import index_media
from palaver.store.engines.database import Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem
from palaver.store.search import found_passages
from palaver.store.workspaces import Workspace

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
    """A media item as listed, without its text."""

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


class Given(Request):
    """Part of a media item, as other programs write it. Unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class GivenChunk(Given):
    text: Content
    """The text of the chunk."""


class GivenSegment(Given):
    start: Annotated[float, Field(ge=0, le=10_000_000, allow_inf_nan=False)]
    """Start, in seconds."""
    end: Annotated[float, Field(ge=0, le=10_000_000, allow_inf_nan=False)]
    """End, in seconds."""
    text: Content
    """Spoken text."""


Chunks = Annotated[list[GivenChunk], Field(max_length=100_000)]
Segments = Annotated[list[GivenSegment], Field(max_length=200_000)]


class GivenTranscript(Given):
    segments: Segments
    """Timed segments."""

    def as_segments(self) -> tuple[Segment, ...]:
        return tuple(Segment(s.start, max(s.start, s.end), s.text) for s in self.segments)


class CreateMedia(Created):
    title: Line
    """Title of the item."""
    media_type: Annotated[Line, Field(min_length=1, max_length=100)]
    """video, audio, podcast, pdf, epub, docx, pptx, html, markdown, txt, image, article, or any other word."""
    content: Content = ""
    """Full text."""
    url: Address | None = None
    """Address of the original."""
    chunks: Chunks | None = None
    """The text as chunks, if you have cut it. They are stored unchanged."""
    transcript: GivenTranscript | None = None
    """Timed transcript: {segments: [{start, end, text}]}, in seconds."""
    keywords: Keywords = Field(default=[])
    """Keywords for search."""


class OneMedia(Request):
    media_id: AnyId
    """Id of the media item."""


class UpdateMedia(VersionedEdit):
    media_id: AnyId
    """Id of the media item."""
    title: Line | None = None
    """New title."""
    media_type: Annotated[Line, Field(min_length=1, max_length=100)] | None = None
    """New type."""
    content: Content | None = None
    """New text. The chunks of the old text are removed."""
    url: Address | None = None
    """New address."""
    chunks: Chunks | None = None
    """New chunks. They are stored unchanged."""
    transcript: GivenTranscript | None = None
    """New transcript."""
    keywords: Keywords | None = None
    """New keywords. They replace the old ones."""


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


def media_of(read: Reader, kept: LibraryItem) -> KeptMedia:
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
async def create_media(workspace: Workspace, caller: Caller, request: CreateMedia) -> KeptMedia:
    """Store a media item (video, podcast, book, article) with its text, chunks and transcript."""
    piece = Media(
        title=request.title,
        media_type=request.media_type,
        content=request.content,
        url=request.url,
        chunks=tuple(chunk.text for chunk in request.chunks or ()),
        segments=request.transcript.as_segments() if request.transcript else (),
        keywords=tuple(request.keywords),
    )
    return await add_item(workspace, "media", lambda: index_media(piece), media_of, request.at)


@operation(Route("GET", "/api/media/{media_id}"), Command("media show", takes=("media_id",), text="content"))
def read_media(read: Reader, caller: Caller, request: OneMedia) -> KeptMedia:
    """Get one media item with its text, chunks and transcript."""
    return media_of(read, current(read, "media", request.media_id))


@operation(Tool("media.update", toolset=WRITING), Route("PUT", "/api/media/{media_id}"))
async def update_media(workspace: Workspace, caller: Caller, request: UpdateMedia) -> KeptMedia:
    """Update a media item. Fields you leave out do not change."""

    def look(read: Reader) -> tuple[LibraryItem, ItemDraft]:
        kept = current(read, "media", request.media_id, request.version)
        bodies = items.bodies(read, kept.document_id)
        is_new_text = request.content is not None and request.content != bodies["content"]
        chunks = () if is_new_text else tuple(orjson.loads(bodies.get("chunks", "[]")))
        old = Media(
            title=kept.title or "",
            media_type=kept.facts["media_type"],
            content=bodies["content"],
            url=kept.facts.get("url"),
            chunks=tuple(chunk.text for chunk in request.chunks) if request.chunks is not None else chunks,
            segments=request.transcript.as_segments() if request.transcript else segments_of(bodies),
            keywords=tuple(kept.facts.get("keywords", ())),
        )
        return kept, index_media(replace(old, **given(request, ("title", "media_type", "content", "url", "keywords"))))

    return await update_item(workspace, look, media_of, request.version)


@operation(
    Route("GET", "/api/media"),
    Command("media list", columns=("id", "media_type", "title", "last_modified")),
)
def list_media(read: Reader, caller: Caller, request: Listing) -> list[MediaCard]:
    """List media items without their texts, last changed first."""
    return [MediaCard(**_media_facts(kept)) for kept in items.page(read, "media", request.limit, request.offset)]
