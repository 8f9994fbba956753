"""Media: videos, podcasts, books and articles, with a text, and perhaps chunks and a transcript."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, ConfigDict, Field

from palaver.errors import NotFound
from palaver.model.library import Media, Segment
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Line, Request, storable
from palaver.operations.library.items import (
    Content,
    Created,
    ItemSource,
    Keywords,
    current,
    operations_of,
)
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.sources.indexing import index_media
from palaver.store.engines.database import Reader
from palaver.store.library import items
from palaver.store.library.items import LibraryItem
from palaver.store.search import found_passages
from palaver.text import subtitles

SUGGESTED = ["video", "audio", "podcast", "pdf", "epub", "docx", "pptx", "html", "markdown", "txt", "image", "article"]
"""Types of media that a list offers, beside those in use."""

Address = Annotated[str, Field(max_length=4000), AfterValidator(storable)]


@dataclass(frozen=True, slots=True)
class Chunk:
    chunk_index: int
    chunk_uuid: str
    text: str


@dataclass(frozen=True, slots=True)
class Spoken:
    segments: list[Segment]


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


class _MediaItems(ItemSource):
    answer = KeptMedia

    def given(self, request: Any, old: Media | None = None) -> dict[str, Any]:
        found = super().given(request)
        if request.transcript:
            segments = request.transcript.segments
            found["segments"] = tuple(Segment(one.start, max(one.start, one.end), one.text) for one in segments)
        if request.chunks is not None:
            found["chunks"] = tuple(chunk.text for chunk in request.chunks)
        elif old and found.get("content", old.content) != old.content:
            found["chunks"] = ()
        return found

    def texts(self, read: Reader, kept: LibraryItem) -> dict[str, Any]:
        bodies = items.bodies(read, kept.document_id)
        return {**bodies, "segments": segments_of(bodies), "chunks": orjson.loads(bodies.get("chunks", "[]"))}

    def show(self, read: Reader, kept: LibraryItem) -> KeptMedia:
        texts = self.texts(read, kept)
        rows = [row for row in found_passages.passages(read, kept.document_id, 1) if row.field == "content"]
        chunks = [Chunk(row.position - 1, row.native_id, row.text) for row in rows]
        transcript = Spoken(list(texts["segments"])) if texts["segments"] else None
        shown: KeptMedia = self.answer_with(KeptMedia, kept, texts, chunks=chunks, transcript=transcript)
        return shown


def segments_of(bodies: dict[str, str]) -> tuple[Segment, ...]:
    return tuple(Segment(*one) for one in orjson.loads(bodies.get("segments", "[]")))


MEDIA = _MediaItems(
    name="media",
    noun="media",
    key="media_id",
    key_help="Id of the media item.",
    piece=Media,
    index=index_media,
    creates=CreateMedia,
    listed=MediaCard,
    help={
        "create": "Store a media item (video, podcast, book, article) with its text, chunks and transcript.",
        "read": "Get one media item with its text, chunks and transcript.",
        "update": "Update a media item. Fields you leave out do not change. New text removes the old chunks.",
        "list": "List media items without their texts, last changed first.",
    },
    columns=("id", "media_type", "title", "last_modified"),
    text="content",
)
OPERATIONS = operations_of(MEDIA)
create_media, read_media, update_media, list_media, delete_media, restore_media = OPERATIONS


# Transcripts


class GetTranscript(Request):
    media_id: AnyId
    """Id of the media item."""
    format: Literal["text", "srt", "vtt", "json"] = "text"
    """text, srt, vtt or json."""
    include_timestamps: bool = False
    """Start each line with its time (text format)."""


@dataclass(frozen=True, slots=True)
class MediaTranscript:
    content: str | dict[str, Any]


@operation(
    Tool("media.transcript", brings_words=True, toolset="knowledge"),
    Route("GET", "/api/media/{media_id}/transcript"),
    Command("media transcript", takes=("media_id",), text="content"),
)
def get_transcript(read: Reader, caller: Caller, request: GetTranscript) -> MediaTranscript:
    """Get the transcript of a recording as text, SRT, WebVTT or JSON."""
    found = current(read, "media", request.media_id)
    said = segments_of(items.bodies(read, found.document_id))
    if not said:
        advice = "This item has no timed segments. Open its text with media.get."
        raise NotFound("transcript", request.media_id, advice, of="media")
    match request.format:
        case "srt":
            return MediaTranscript(subtitles.as_srt(said))
        case "vtt":
            return MediaTranscript(subtitles.as_vtt(said))
        case "json":
            return MediaTranscript({"segments": said})
        case _:
            return MediaTranscript(subtitles.as_text(said, timed=request.include_timestamps))


def media_types(read: Reader) -> dict[str, list[str]]:
    """The media types in use, and suggested ones."""
    return {"media_types": items.media_types(read), "suggested": SUGGESTED}
