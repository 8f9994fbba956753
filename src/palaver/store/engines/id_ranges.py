"""Ranges of passage ids: each source has one range for its bodies and one for its titles (SQLite).

A search in one source then reads only its range of the index. A token for the source in every index row would do the
same, but it costs as much as counting all its rows at every query: 5 ms at 100,000 messages. A range costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from palaver.model import sources

SOURCES = tuple(row.name for row in sorted(sources.SOURCES, key=lambda row: row.id_range))

WIDTH = 1 << 44


SUBSTRING_SOURCES = tuple(row.name for row in sources.SOURCES if row.has_substrings)


def has_substring_index(passage_id: int) -> bool:
    """Is this passage in a range whose texts have a substring index?"""
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
    """The first and last id in the range of a source's bodies or titles."""
    number = 2 * SOURCES.index(source) + titles
    return number * WIDTH, (number + 1) * WIDTH - 1


def range_numbers(sources: Iterable[str], *, bodies: bool, titles: bool) -> list[int]:
    """The numbers of the ranges of these sources. The number of an id is `id // WIDTH`."""
    kinds = [kind for kind, wanted in ((0, bodies), (1, titles)) if wanted]
    return [2 * SOURCES.index(source) + kind for source in sources for kind in kinds]


def id_ranges_of(sources: Iterable[str], *, bodies: bool, titles: bool) -> list[tuple[int, int]]:
    """The first and last ids of the ranges of these sources. Adjacent ranges are merged."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(range_numbers(sources, bodies=bodies, titles=titles)):
        first, last = number * WIDTH, (number + 1) * WIDTH - 1
        if ranges and ranges[-1][1] + 1 == first:
            first = ranges.pop()[0]
        ranges.append((first, last))
    return ranges
