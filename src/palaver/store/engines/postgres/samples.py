"""About how many passages match a query: they are counted in some blocks of passages.

The server's statistics have the most common terms only. In a very large index, the others may be in more passages than
a search can read.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from palaver.store.engines.database import Connection
from palaver.store.engines.postgres import blocks, search_sql

SAMPLED_FROM, RARE_SAMPLED_FROM = 8 * blocks.BLOCK, 4 * blocks.LARGE_BLOCK
"""In an index with fewer ids, all matches are counted: those of common terms, and those of rare terms."""
ENOUGH_MATCHES = 150
"""A sample should have about this many matches."""
MOST_BLOCKS = 8
LARGE_BLOCKS = 2
MOST_KEPT = 10_000
"""Estimates that are kept."""


class Samples:
    """Estimates, and those that were made before."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}

    def forget(self) -> None:
        self._known.clear()

    def known(self, query: str, checked: str = "") -> int:
        """About how many passages match a query, if that was asked before; else 0."""
        return self._known.get((query, checked), 0)

    def counts(
        self, connection: Connection, queries: Sequence[str], shares: Sequence[float], checked: str = ""
    ) -> list[int] | None:
        """About how many passages match each query; 1 if hardly any. None if the index is too small for samples.

        `shares` tells which share of passages matches at most, or 0 if that is not known. Passages that do not match
        `checked` are left out.
        """
        newest = connection.fetch(connection.dialect.sql("newest_indexed"), {})[0]["id"]
        if newest < (SAMPLED_FROM if all(shares) else RARE_SAMPLED_FROM):
            return None
        new = {
            query: _blocks(newest, share)
            for query, share in zip(queries, shares, strict=True)
            if (query, checked) not in self._known
        }
        if new:
            in_blocks = [blocks.any_block(numbers, size) for numbers, size in new.values()]
            sql = search_sql.SAMPLED.format(and_checked=search_sql.AND_CHECKED if checked else "")
            counted = connection.fetch_tuples(sql, {"queries": list(new), "blocks": in_blocks, "checked": checked})
            if len(self._known) > MOST_KEPT:
                self.forget()
            for (query, (numbers, size)), (matches,) in zip(new.items(), counted, strict=True):
                self._known[query, checked] = max(1, round(matches * newest / (len(numbers) * size)))
        return [self._known[query, checked] for query in queries]


def _blocks(newest: int, share: float) -> tuple[list[int], int]:
    """The numbers of blocks that are far from each other, and their size. Of common terms few passages are enough."""
    if share:
        size = blocks.BLOCK
        wanted = min(MOST_BLOCKS, max(2, ceil(ENOUGH_MATCHES / share / size)))
    else:
        size, wanted = blocks.LARGE_BLOCK, LARGE_BLOCKS
    full = newest // size  # the newest block is not full
    return [full - 1 - number * full // wanted for number in range(wanted)], size
