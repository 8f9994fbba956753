"""Transcripts and subtitles: SRT, WebVTT, and the JSON of Whisper, WhisperX, whisper.cpp, YouTube and podcasts.

Kept, as media: each segment with its times and its text (the speaker as `Name: …`), the whole text, and the title. In
rolling captions, where each repeats the line before, every line is kept once.

The type is `podcast` if the name says so, `video` for subtitles (`.srt`, `.vtt`) and YouTube, else `audio`. A suffix
within the name (`talk.mp3.srt`) or `media_type` in the JSON comes first.

Left out: formatting, positions on the screen, times of single words, scores.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from palaver.importers import Unreadable, objects_of
from palaver.importers.files.html_text import unescape
from palaver.importers.files.json_stream import LEADING_BYTES, is_json
from palaver.importers.item import Item, Skipped, parse_any_time
from palaver.importers.library import item_text
from palaver.model.library import ImportedPiece, Media, Segment

name = "transcript"

LATEST = 10_000_000.0  # seconds: some months
BLINK = 0.05
"""Rolling captions have cues as short as this, in seconds, that only repeat a line."""

_TIME = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2}(?:[.,]\d{1,9})?)"
_CUE = re.compile(rf"^[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}[^\n]*$", re.MULTILINE)
_NEXT = re.compile(r"\n\d{1,9}[ \t]*\n?\Z")  # the number of the next cue, if no blank line is before it
_CLOCK = re.compile(rf"\s*{_TIME}\s*")
_SEEN = re.compile(r"<v(?:\.[\w.-]*)?[ \t]+([^>\n]{1,100})>")
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,200}>|<[\d:.]{5,20}>|\{\\[^{}\n]{1,100}\}")
_LANGUAGE = re.compile(r"\.[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?\Z")
_AUDIO = re.compile(r"\.(?:mp3|m4a|wav|ogg|opus|flac|aac)\Z", re.IGNORECASE)
_VIDEO = re.compile(r"\.(?:mp4|mkv|mov|webm|avi|m4v)\Z", re.IGNORECASE)
_PODCAST = re.compile(r"podcast|episode", re.IGNORECASE)
_TYPES = ("audio", "video", "podcast")

_LISTS = ("segments", "transcription", "events", "utterances", "captions", "cues", "transcript")
_LIST = re.compile(rb'"(?:%s)"\s*:\s*[\[{]' % "|".join(_LISTS).encode())
_START = re.compile(rb'"(?:start|start_seconds|start_time|startTime|start_ms|tStartMs|offsets|timestamps)"\s*:')
_SAID = re.compile(rb'"(?:text|utf8|body)"\s*:')
_WHISPER = re.compile(rb'\{\s*"(?:text|task|language|duration)"\s*:')
_LASTS = re.compile(rb'"(?:duration|dur|end|end_seconds|end_time|endTime|end_ms|dDurationMs)"\s*:')
_MARKED_UP = re.compile(rb'"(?:label|labels|entity|tag|type|category|class)"\s*:')
"""Keys of annotated texts. Their positions are characters, which have no fractions."""
_FRACTION = re.compile(rb'"(?:duration|start|start_seconds|end)"\s*:\s*"?\d+[.:]\d')


def recognises(item: Item, head: bytes) -> bool:
    file = item.file_name.lower()
    if file.endswith((".srt", ".vtt")):
        return item_text.is_text(head)
    if not file.endswith((".json", ".json3", ".srv3")) or not is_json(item, head):
        return False
    if head.lstrip(LEADING_BYTES).startswith(b"["):
        timed = all(sign.search(head) for sign in (_START, _SAID, _LASTS))
        return timed and bool(_FRACTION.search(head) or not _MARKED_UP.search(head))
    if _LIST.search(head):
        return bool(_START.search(head) and _SAID.search(head))
    return bool(_WHISPER.match(head.lstrip(LEADING_BYTES))) and _comes_later(item)


def _comes_later(item: Item) -> bool:
    """Whether a list of segments follows after the head. Whisper writes the whole text before it."""
    with suppress(Unreadable):  # too large
        raw = item_text.read_bytes(item)
        found = _LIST.search(raw)
        return bool(found and _START.search(raw, found.start()))
    return False


def pieces(item: Item) -> Iterator[ImportedPiece | Skipped]:
    raw = item_text.read_bytes(item)
    about: dict[str, Any] = {}
    if item.file_name.lower().endswith((".srt", ".vtt")):
        segments, left_out = _cues(item_text.decode_text(raw)), 0
    else:
        found = item_text.parse_json(raw)
        about = found if isinstance(found, dict) else {}
        segments, left_out = _listed(found)
    segments.sort(key=lambda segment: segment.start)
    if not segments:
        raise Unreadable("nothing is said in it at any time")
    title, kind = _named(item, about)
    media = Media(
        title=title,
        media_type=kind,
        content="\n".join(segment.text for segment in segments),
        url=about["url"] if isinstance(about.get("url"), str) and about["url"].startswith("http") else None,
        segments=tuple(segments),
        created_at=parse_any_time(about.get("created_at") or about.get("date")) or item_text.date_in(title),
    )
    yield from item_text.keep_piece(item, name, media)
    if left_out:
        yield Skipped(item.name, "a segment without text or time", left_out)


def _named(item: Item, about: dict[str, Any]) -> tuple[str, str]:
    """The title and the type of a recording."""
    title = item_text.title_from_name(item)
    title = _LANGUAGE.sub("", title) or title
    file = item.file_name.lower()
    kind = "video" if file.endswith((".srt", ".vtt", ".json3", ".srv3")) or "events" in about else "audio"
    for ending, of in ((_AUDIO, "audio"), (_VIDEO, "video")):
        if ending.search(title):
            title, kind = ending.sub("", title) or title, of
    if _PODCAST.search(item.inside or file):
        kind = "podcast"
    given, said = about.get("title"), about.get("media_type")
    if isinstance(said, str) and said in _TYPES:
        kind = said
    return given if isinstance(given, str) and given.strip() else title, kind


# SRT and WebVTT: in both, a line with two times begins a cue, and a blank line ends it.


def _cues(text: str) -> list[Segment]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found = list(_CUE.finditer(text))
    cues: list[Segment] = []
    before: list[str] = []
    for n, cue in enumerate(found):
        end = found[n + 1].start() if n + 1 < len(found) else len(text)
        lines = _lines(_NEXT.sub("\n", text[cue.end() : end]))
        start, stop = _seconds(*cue.groups()[:3]), _seconds(*cue.groups()[3:])
        new = lines[1:] if before and len(lines) > 1 and lines[0] == before[-1] else lines
        if lines == before[-1:] and stop - start <= BLINK:
            new = []
        before = lines or before
        if new:
            cues.append(Segment(start, max(start, stop), "\n".join(new)))
    return cues


def _lines(block: str) -> list[str]:
    """The lines of a cue, up to the first blank one."""
    lines: list[str] = []
    for line in block.removeprefix("\n").split("\n"):
        if not line.strip():
            break
        said = _TAG.sub("", _SEEN.sub(lambda voice: f"{voice[1].strip()}: ", line))
        lines.append(unescape(said).strip())
    return [line for line in lines if line]


def _seconds(hours: str | None, minutes: str, seconds: str) -> float:
    return int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds.replace(",", "."))


# JSON


def _listed(found: Any) -> tuple[list[Segment], int]:
    """The segments, and the number of those that cannot be read."""
    for _ in range(2):  # {"transcript": {"segments": […]}}
        if isinstance(found, dict):
            found = next((found[key] for key in _LISTS if isinstance(found.get(key), list | dict)), None)
    rows = found if isinstance(found, list) else []
    segments: list[Segment] = []
    left_out = 0
    following: float | None = None  # the start of the next segment: the end of one that has none
    for row in reversed([row if isinstance(row, dict) else {} for row in rows]):
        start, text = _time(row, "start"), _said(row)
        if start is None or not text:
            left_out += "tStartMs" not in row  # YouTube has events without captions
            continue
        end = _time(row, "end")
        if end is None:
            lasts = _time(row, "duration")
            end = start + lasts if lasts is not None else following or start
        following = start
        segments.append(Segment(start, min(max(start, end), LATEST), text))
    return segments[::-1], left_out


def _said(row: dict[str, Any]) -> str:
    text = next((row[key] for key in ("text", "body") if isinstance(row.get(key), str)), None)
    if text is None:
        text = "".join(seg["utf8"] for seg in objects_of(row.get("segs")) if isinstance(seg.get("utf8"), str))
    speaker, text = row.get("speaker"), text.strip()
    return f"{speaker.strip()}: {text}" if text and isinstance(speaker, str) and speaker.strip() else text


_KEYS = {
    "start": ("start", "start_seconds", "start_time", "startTime", "start_ms", "tStartMs"),
    "end": ("end", "end_seconds", "end_time", "endTime", "end_ms"),
    "duration": ("duration", "dur", "dDurationMs", "duration_ms"),
}
"""The keys of times. Those that end in `ms` are in milliseconds, the others in seconds."""


def _time(row: dict[str, Any], which: str) -> float | None:
    for key in _KEYS[which]:
        if (at := _number(row.get(key), 0.001 if key.lower().endswith("ms") else 1.0)) is not None:
            return at
    side = {"start": "from", "end": "to"}.get(which, "")
    for key, factor in (("offsets", 0.001), ("timestamps", 1.0)):  # whisper.cpp
        inner = row.get(key)
        if isinstance(inner, dict) and (at := _number(inner.get(side), factor)) is not None:
            return at
    return None


def _number(value: Any, factor: float) -> float | None:
    if isinstance(value, str):
        if clock := _CLOCK.fullmatch(value[:40]):
            return _seconds(*clock.groups())
        try:
            value = float(value[:40])
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = round(float(value) * factor, 6)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and 0 <= seconds <= LATEST else None
