"""Transcripts of recordings as text, SRT, WebVTT or JSON, and the list of media types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from palaver.errors import NotFound
from palaver.model.people import Caller
from palaver.model.requests import AnyId, Request
from palaver.operations import library
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.store.engines.database import Reader
from palaver.store.library import items as kept
from palaver.text import subtitles
from palaver.text.subtitles import Cue

SUGGESTED = (
    "video",
    "audio",
    "podcast",
    "pdf",
    "epub",
    "docx",
    "pptx",
    "html",
    "markdown",
    "txt",
    "image",
    "article",
)


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
    found = library.current(read, "media", request.media_id)
    said = [Cue(s.start, s.end, s.text) for s in library.segments_of(kept.bodies(read, found.document_id))]
    if not said:
        advice = "This item has no timed segments. Open its text with media.get."
        raise NotFound("transcript", request.media_id, advice, of="media")
    match request.format:
        case "srt":
            return MediaTranscript(subtitles.as_srt(said))
        case "vtt":
            return MediaTranscript(subtitles.as_vtt(said))
        case "json":
            return MediaTranscript({"segments": [cue._asdict() for cue in said]})
        case _:
            return MediaTranscript(subtitles.as_text(said, timed=request.include_timestamps))


def media_types(read: Reader) -> dict[str, list[str]]:
    """The media types in use, and suggested ones."""
    return {"media_types": kept.media_types(read), "suggested": list(SUGGESTED)}
