"""Transcripts in the formats players read."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from palaver.model.library import Segment
from palaver.text.subtitles import as_srt, as_text, as_vtt

times = st.floats(-5, 10_000_000, allow_nan=False)
cues = st.lists(st.builds(Segment, times, times, st.text(max_size=60)), max_size=8)
SPAN = re.compile(r"(\d{2,}):([0-5]\d):([0-5]\d)[.,](\d{3}) --> (\d{2,}):([0-5]\d):([0-5]\d)[.,](\d{3})")


def blocks(text: str) -> list[list[str]]:
    return [block.split("\n") for block in text.rstrip("\n").split("\n\n")] if text.strip() else []


def span(line: str) -> tuple[int, int]:
    found = SPAN.fullmatch(line)
    assert found, line
    numbers = [int(n) for n in found.groups()]
    moments = [((h * 60 + m) * 60 + s) * 1000 + ms for h, m, s, ms in (numbers[:4], numbers[4:])]
    return moments[0], moments[1]


@given(cues)
def test_every_cue_is_numbered_timed_and_in_order(said: list[Segment]):
    found = blocks(as_srt(said))
    assert [block[0] for block in found] == [str(n) for n in range(1, len(said) + 1)]
    spans = [span(block[1]) for block in found]
    assert spans == sorted(spans, key=lambda one: one[0])
    assert all(start < end for start, end in spans)
    assert all(block[2:] and all(line.strip() for line in block[2:]) for block in found)
    assert "-->" not in "".join(line for block in found for line in block[2:])


@given(cues)
def test_web_vtt_has_the_same_cues_escaped(said: list[Segment]):
    text = as_vtt(said)
    assert text.startswith("WEBVTT\n\n")
    found = blocks(text.removeprefix("WEBVTT\n\n"))
    assert [span(block[0]) for block in found] == [span(block[1]) for block in blocks(as_srt(said))]
    assert all(not set("<>") & set(line) for block in found for line in block[1:])


def test_text_is_what_was_said_line_by_line():
    said = [Segment(0, 1, "one"), Segment(3661.5, 3662, "two")]
    assert as_text(said) == "one\ntwo"
    assert as_text(said, timed=True) == "[00:00:00.000] one\n[01:01:01.500] two"
