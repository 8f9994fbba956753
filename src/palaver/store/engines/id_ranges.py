"""Lanes: each source's bodies, and each source's titles, have a range of passage ids of their own.

A search in one source then walks only its range of the index. A token for the source in every index row would do the
same, but costs as much as counting all its rows at every query: 5 ms at 100,000 messages, where a range costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from palaver.model import sources

SOURCES = tuple(row.name for row in sorted(sources.SOURCES, key=lambda row: row.id_range))

WIDTH = 1 << 44


SUBSTRING_SOURCES = tuple(row.name for row in sources.SOURCES if row.has_substrings)


def has_substring_index(passage_id: int) -> bool:
    """May any part of this passage's text be searched for?"""
    number = passage_id // WIDTH
    return 0 <= number < 2 * len(SOURCES) and SOURCES[number // 2] in SUBSTRING_SOURCES


RECORDED_SOURCES = tuple(row.name for row in sources.SOURCES if row.has_copies)
"""Where a message may be kept more than once. Their lanes are next to each other."""

SHARED_SOURCES = tuple(name for name in SOURCES if name in {row.name for row in sources.SOURCES if row.is_shared})
"""What every caller may search, but for human-only messages."""

TEXT_SOURCES = tuple(
    row.name for row in sorted(sources.SOURCES, key=lambda row: row.id_range) if row.shape != "conversation"
)
"""Where a document is one result, however many of its passages are found."""


def id_range_of(source: str, *, titles: bool = False) -> tuple[int, int]:
    """The first and last id of the lane."""
    number = 2 * SOURCES.index(source) + titles
    return number * WIDTH, (number + 1) * WIDTH - 1


def range_numbers(sources: Iterable[str], *, bodies: bool, titles: bool) -> list[int]:
    """The numbers of the lanes of these sources: an id divided by the width of a lane."""
    kinds = [kind for kind, wanted in ((0, bodies), (1, titles)) if wanted]
    return [2 * SOURCES.index(source) + kind for source in sources for kind in kinds]


def id_ranges_of(sources: Iterable[str], *, bodies: bool, titles: bool) -> list[tuple[int, int]]:
    """The same as first and last ids; lanes beside each other are one range."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(range_numbers(sources, bodies=bodies, titles=titles)):
        first, last = number * WIDTH, (number + 1) * WIDTH - 1
        if ranges and ranges[-1][1] + 1 == first:
            first = ranges.pop()[0]
        ranges.append((first, last))
    return ranges
