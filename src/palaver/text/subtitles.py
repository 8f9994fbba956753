"""Write timed transcripts as text, SubRip (SRT) or WebVTT."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Protocol


class Cue(Protocol):
    """A text, and from when to when it is said, in seconds."""

    @property
    def start(self) -> float: ...
    @property
    def end(self) -> float: ...
    @property
    def text(self) -> str: ...


def as_text(cues: Iterable[Cue], *, timed: bool = False) -> str:
    return "\n".join(
        f"[{_clock(_millis(cue.start), '.')}] {cue.text}" if timed else cue.text for cue in _in_order(cues)
    )


def as_srt(cues: Iterable[Cue]) -> str:
    """SubRip: numbered cues in the order of time. A blank line ends a cue, so cue texts have none."""
    return "\n".join(
        f"{number}\n{_span(cue, ',')}\n{_lines(cue.text).replace('-->', '->')}\n"
        for number, cue in enumerate(_in_order(cues), 1)
    )


def as_vtt(cues: Iterable[Cue]) -> str:
    """WebVTT: cues in the order of time, with markup characters escaped."""
    return "WEBVTT\n\n" + "\n".join(
        f"{_span(cue, '.')}\n{escape(_lines(cue.text), quote=False)}\n" for cue in _in_order(cues)
    )


def _in_order(cues: Iterable[Cue]) -> list[Cue]:
    return sorted(cues, key=lambda cue: cue.start)


def _span(cue: Cue, mark: str) -> str:
    """The time line of a cue. A cue lasts at least a millisecond."""
    start = _millis(cue.start)
    return f"{_clock(start, mark)} --> {_clock(max(_millis(cue.end), start + 1), mark)}"


def _millis(seconds: float) -> int:
    return round(max(seconds, 0.0) * 1000)


def _clock(millis: int, mark: str) -> str:
    minutes, millis = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    whole, millis = divmod(millis, 1000)
    return f"{hours:02}:{minutes:02}:{whole:02}{mark}{millis:03}"


def _lines(text: str) -> str:
    return re.sub(r"(?:\r\n?|\n|\u2028|\u2029|\x0b|\x0c|\x85)\s*", "\n", text.strip()) or "…"
